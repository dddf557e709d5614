#include "model/gpt.hpp"

#include "model/gpt_layers.hpp"

namespace rhizome::model {
namespace {

constexpr double deviation = 0.02;  // of initial matrices and embeddings

class Embedding final : public Layer {
  public:
    Embedding(LayerSpec spec, LayerId id, double dropout)
        : Layer{std::move(spec), id}, dropout_{dropout} {}

    void forward(device::Stream& stream, const Pass& pass, const LayerTensors& t) const override {
        stream.embed(t.outputs[0], t.fields[0], t.parameters[0], t.parameters[1]);
        if (const auto drop = dropout(dropout_, 0, pass)) {
            stream.dropout(t.outputs[0], t.outputs[0], *drop);
        }
    }
    void backward_input(device::Stream& stream, const Pass& pass,
                        const LayerTensors& t) const override {
        if (const auto drop = dropout(dropout_, 0, pass)) {
            stream.dropout(t.deferred[0], t.d_outputs[0], *drop);
        } else {
            stream.copy(t.deferred[0], t.d_outputs[0]);
        }
    }
    void backward_weight(device::Stream& stream, const Pass& /*pass*/,
                         const LayerTensors& t) const override {
        stream.embed_backward(t.gradients[0], t.gradients[1], t.deferred[0], t.fields[0]);
    }

  private:
    double dropout_;
};

class FinalNorm final : public Layer {
  public:
    using Layer::Layer;

    void forward(device::Stream& stream, const Pass& /*pass*/,
                 const LayerTensors& t) const override {
        stream.norm(t.outputs[0], t.saved[0], t.saved[1], t.inputs[0], t.parameters[0],
                    t.parameters[1]);
    }
    void backward_input(device::Stream& stream, const Pass& /*pass*/,
                        const LayerTensors& t) const override {
        stream.norm_backward_input(t.d_inputs[0], t.d_outputs[0], t.inputs[0], t.saved[0],
                                   t.saved[1], t.parameters[0]);
        stream.copy(t.deferred[0], t.d_outputs[0]);
    }
    void backward_weight(device::Stream& stream, const Pass& /*pass*/,
                         const LayerTensors& t) const override {
        stream.norm_backward_weight(t.gradients[0], t.gradients[1], t.deferred[0], t.inputs[0],
                                    t.saved[0], t.saved[1]);
    }
};

/// Logits and their gradient share one tensor: cross-entropy turns the one into the other.
class Head final : public Layer {
  public:
    using Layer::Layer;

    void forward(device::Stream& stream, const Pass& pass, const LayerTensors& t) const override {
        stream.linear(t.saved[0], t.inputs[0], t.parameters[0], std::nullopt);
        stream.cross_entropy(t.loss, t.saved[0], t.fields[0], pass.gradient_scale);
    }
    void backward_input(device::Stream& stream, const Pass& /*pass*/,
                        const LayerTensors& t) const override {
        stream.linear_backward_input(t.d_inputs[0], t.saved[0], t.parameters[0]);
    }
    void backward_weight(device::Stream& stream, const Pass& /*pass*/,
                         const LayerTensors& t) const override {
        stream.linear_backward_weight(t.gradients[0], std::nullopt, t.saved[0], t.inputs[0]);
    }
};

}  // namespace

std::unique_ptr<Layer> make_embedding(const GptShape& shape, LayerId id) {
    LayerSpec spec;
    spec.name = "embedding";
    spec.parameters = {shape.matrix("token", shape.config.vocabulary, shape.channels(), deviation),
                       shape.matrix("position", shape.positions(), shape.channels(), deviation)};
    spec.fields = {"tokens"};
    spec.writes = {shape.hidden()};
    spec.deferred = {shape.activation("d_sum", shape.channels())};
    const auto elements = static_cast<double>(shape.hidden().shape.elements());
    spec.forward_flops = elements;
    spec.backward_weight_flops = 2 * elements;
    return std::make_unique<Embedding>(std::move(spec), id, shape.config.dropout);
}

std::unique_ptr<Layer> make_final_norm(const GptShape& shape, LayerId id) {
    LayerSpec spec;
    spec.name = "final_norm";
    spec.parameters = {shape.vector("weight", shape.channels(), Initial::Kind::ones),
                       shape.vector("bias", shape.channels(), Initial::Kind::zeros)};
    spec.reads = {"hidden"};
    spec.writes = {shape.hidden()};
    spec.saved = {shape.per_token("mean"), shape.per_token("inverse_deviation")};
    spec.deferred = {shape.activation("d_out", shape.channels())};
    const auto elements = static_cast<double>(shape.hidden().shape.elements());
    spec.forward_flops = 7 * elements;
    spec.backward_input_flops = 11 * elements;
    spec.backward_weight_flops = 5 * elements;
    return std::make_unique<FinalNorm>(std::move(spec), id);
}

std::unique_ptr<Layer> make_head(const GptShape& shape, LayerId id) {
    LayerSpec spec;
    spec.name = "head";
    spec.parameters = {
        shape.matrix("weight", shape.config.vocabulary, shape.channels(), deviation)};
    if (shape.config.tying == Tying::tied) spec.parameters[0].tied_to = "embedding/token";
    spec.fields = {"targets"};
    spec.reads = {"hidden"};
    spec.ends = {"hidden"};
    spec.saved = {shape.activation("logits", shape.config.vocabulary)};
    spec.loss = Loss::adds;
    const double flops = 2.0 * static_cast<double>(shape.tokens()) * shape.config.vocabulary *
                         static_cast<double>(shape.channels());
    spec.forward_flops = flops;
    spec.backward_input_flops = flops;
    spec.backward_weight_flops = flops;
    return std::make_unique<Head>(std::move(spec), id);
}

Network make_gpt(const GptConfig& config, std::int32_t rows, DType dtype,
                 std::int64_t chunk_elements) {
    ENSURE(config.blocks > 0 && config.heads > 0 && config.channels % config.heads == 0);
    const GptShape shape{config, rows, dtype};
    std::vector<std::unique_ptr<Layer>> layers;
    const auto next = [&] { return LayerId{static_cast<std::int32_t>(layers.size())}; };
    layers.push_back(make_embedding(shape, next()));
    for (std::int32_t block = 0; block < config.blocks; ++block) {
        layers.push_back(make_block(shape, next()));
    }
    layers.push_back(make_final_norm(shape, next()));
    layers.push_back(make_head(shape, next()));
    return Network{std::move(layers), chunk_elements};
}

}  // namespace rhizome::model
