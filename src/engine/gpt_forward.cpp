#include "engine/gpt_forward.hpp"

#include <algorithm>

namespace rhizome::engine {

using device::Tensor;

namespace {

/// Nothing here is cut into chunks, but a table of layers has a size of them.
constexpr std::int64_t any_chunk_elements = 65536;

model::Network network_of(model::GptConfig config, DType dtype, std::int32_t length) {
    ENSURE(length >= 1 && length <= config.context);
    config.context = length;
    return model::make_gpt(config, 1, dtype, any_chunk_elements);
}

std::vector<Tensor> tensors_in(const device::Memory& memory, std::span<const TensorSpec> specs) {
    const device::Layout layout{specs};
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < specs.size(); ++i) {
        tensors.push_back(memory.at(layout.offsets[i], specs[i]));
    }
    return tensors;
}

template <class T>
std::vector<double> downloaded(device::Stream& stream, const Tensor& tensor) {
    std::vector<T> values(static_cast<std::size_t>(tensor.elements()));
    stream.download(std::as_writable_bytes(std::span{values}), tensor);
    stream.synchronize();
    return {values.begin(), values.end()};
}

}  // namespace

GptForward::Specs::Specs(const model::Network& network, const model::GptConfig& config,
                         DType dtype) {
    const TensorSpec hidden = network.layer(LayerId{0}).spec().writes.front();
    kept = {{"tokens", Shape{1, hidden.shape[1]}, DType::i32},
            {"logits", Shape{1, config.vocabulary}, dtype},
            hidden,
            hidden};
    for (std::int32_t i = 0; i + 1 < network.size(); ++i) {
        const model::LayerSpec& spec = network.layer(LayerId{i}).spec();
        saved_bytes = std::max(saved_bytes, device::Layout{spec.saved}.bytes);
        scratch_bytes = std::max(scratch_bytes, device::Layout{spec.scratch}.bytes);
    }
}

std::int64_t GptForward::Specs::bytes() const {
    return device::Layout{kept}.bytes + saved_bytes + scratch_bytes;
}

std::int64_t GptForward::planned_bytes(const model::GptConfig& config, DType dtype,
                                       std::int32_t length) {
    return Specs{network_of(config, dtype, length), config, dtype}.bytes();
}

GptForward::GptForward(device::Device& device, const model::GptConfig& config, DType dtype,
                       std::int32_t length)
    : network_{network_of(config, dtype, length)}, length_{length} {
    const Specs specs{network_, config, dtype};
    kept_ = device.allocate(device::Layout{specs.kept}.bytes);
    saved_memory_ = device.allocate(specs.saved_bytes);
    scratch_memory_ = device.allocate(specs.scratch_bytes);
    const std::vector<Tensor> kept = tensors_in(kept_, specs.kept);
    tokens_ = kept[0];
    logits_ = kept[1];
    hidden_ = {kept[2], kept[3]};
    for (std::int32_t i = 0; i + 1 < network_.size(); ++i) {
        const model::LayerSpec& spec = network_.layer(LayerId{i}).spec();
        // One wire goes through all layers, and each writes it anew.
        ENSURE(spec.writes.size() == 1 && spec.reads.size() == (i == 0 ? 0U : 1U));
        saved_.push_back(tensors_in(saved_memory_, spec.saved));
        scratch_.push_back(tensors_in(scratch_memory_, spec.scratch));
    }
}

std::vector<Tensor> GptForward::parameters_of(LayerId layer,
                                              const model::TensorSet& parameters) const {
    const std::span<const Tensor> whole = parameters.of(layer);
    const std::vector<model::ParameterSpec>& specs = network_.layer(layer).spec().parameters;
    ENSURE(whole.size() == specs.size());
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < specs.size(); ++i) {
        const TensorSpec& spec = specs[i].spec;
        ENSURE(whole[i].dtype == spec.dtype && whole[i].elements() >= spec.shape.elements());
        tensors.push_back({whole[i].data, spec.shape, spec.dtype});  // its first rows
    }
    return tensors;
}

std::vector<double> GptForward::logits(device::Stream& stream, const model::TensorSet& parameters,
                                       std::span<const std::int32_t> tokens) const {
    const auto count = static_cast<std::int64_t>(tokens.size());
    ENSURE(count >= 1 && count <= length_);
    std::vector<std::int32_t> padded(tokens.begin(), tokens.end());
    padded.resize(static_cast<std::size_t>(length_));  // nothing looks at what comes behind
    stream.upload(tokens_, std::as_bytes(std::span{padded}));

    const model::Pass pass{.mode = model::Pass::Mode::evaluate,
                           .seed = 0,
                           .step = Step{0},
                           .microbatch = Microbatch{0},
                           .gradient_scale = 1.0};
    std::size_t written = 0;
    for (std::int32_t i = 0; i < head().value(); ++i) {
        const std::size_t read = written;
        written = 1 - read;
        const std::vector<Tensor> layer_parameters = parameters_of(LayerId{i}, parameters);
        const std::size_t inputs = network_.layer(LayerId{i}).spec().reads.size();
        const std::size_t fields = network_.layer(LayerId{i}).spec().fields.size();
        network_.layer(LayerId{i})
            .forward(stream, pass,
                     {.parameters = layer_parameters,
                      .fields = std::span{&tokens_, fields},
                      .inputs = std::span{&hidden_[read], inputs},
                      .outputs = std::span{&hidden_[written], 1},
                      .saved = saved_[static_cast<std::size_t>(i)],
                      .scratch = scratch_[static_cast<std::size_t>(i)],
                      .loss = {},
                      .d_outputs = {},
                      .d_inputs = {},
                      .deferred = {},
                      .gradients = {}});
    }
    // The head goes on to the loss, at all positions; only the product is wanted, at one.
    const Tensor& hidden = hidden_[written];
    const std::int64_t channels = hidden.shape[2];
    const Tensor last{hidden.data + (count - 1) * channels * bytes_of(hidden.dtype),
                      Shape{1, channels}, hidden.dtype};
    stream.linear(logits_, last, parameters_of(head(), parameters).front(), std::nullopt);
    const bool wide = logits_.dtype == DType::f64;
    // Also waits until `padded` has been read.
    return wide ? downloaded<double>(stream, logits_) : downloaded<float>(stream, logits_);
}

}  // namespace rhizome::engine
