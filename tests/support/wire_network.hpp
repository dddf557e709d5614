// A network with a wire that passes some layers by and is read by several. GPT has no such wire, so
// this one stands in for the networks that do.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/network.hpp"

namespace rhizome::tests::wires {

using device::Stream;
using model::Layer;
using model::LayerSpec;
using model::LayerTensors;
using model::Pass;

// The network fits the text of support/small_gpt.hpp.
inline constexpr std::int32_t rows = 2;
inline constexpr std::int64_t context = 5;
inline constexpr std::int64_t channels = 3;
inline constexpr std::int64_t vocabulary = 11;

inline TensorSpec hidden(const std::string& name) {
    return {name, Shape{rows, context, channels}, DType::f64};
}
inline model::ParameterSpec matrix(const std::string& name, std::int64_t outputs,
                                   std::int64_t inputs) {
    return {.spec = {name, Shape{outputs, inputs}, DType::f64},
            .decay = Decay::weight,
            .initial = {model::Initial::Kind::normal, 0.5}};
}

/// memory = embedded tokens.
class Embed final : public Layer {
  public:
    explicit Embed(LayerId id) : Layer{make_spec(), id} {}

    void forward(Stream& stream, const Pass&, const LayerTensors& t) const override {
        stream.embed(t.outputs[0], t.fields[0], t.parameters[0], t.parameters[1]);
    }
    void backward_input(Stream& stream, const Pass&, const LayerTensors& t) const override {
        stream.copy(t.deferred[0], t.d_outputs[0]);
    }
    void backward_weight(Stream& stream, const Pass&, const LayerTensors& t) const override {
        stream.embed_backward(t.gradients[0], t.gradients[1], t.deferred[0], t.fields[0]);
    }

  private:
    static LayerSpec make_spec() {
        LayerSpec spec;
        spec.name = "embed";
        spec.parameters = {matrix("token", vocabulary, channels),
                           matrix("position", context, channels)};
        spec.fields = {"tokens"};
        spec.writes = {hidden("memory")};
        spec.deferred = {hidden("d_memory")};
        return spec;
    }
};

/// hidden = gelu(x weight^T) of the wire `reads`.
class Bend final : public Layer {
  public:
    Bend(LayerId id, const std::string& reads) : Layer{make_spec(id, reads), id} {}

    void forward(Stream& stream, const Pass&, const LayerTensors& t) const override {
        stream.linear(t.saved[0], t.inputs[0], t.parameters[0], std::nullopt);
        stream.gelu(t.outputs[0], t.saved[0]);
    }
    void backward_input(Stream& stream, const Pass&, const LayerTensors& t) const override {
        stream.gelu_backward(t.deferred[0], t.d_outputs[0], t.saved[0]);
        stream.linear_backward_input(t.d_inputs[0], t.deferred[0], t.parameters[0]);
    }
    void backward_weight(Stream& stream, const Pass&, const LayerTensors& t) const override {
        stream.linear_backward_weight(t.gradients[0], std::nullopt, t.deferred[0], t.inputs[0]);
    }

  private:
    static LayerSpec make_spec(LayerId id, const std::string& reads) {
        LayerSpec spec;
        spec.name = "bend." + std::to_string(id.value());
        spec.parameters = {matrix("weight", channels, channels)};
        spec.reads = {reads};
        spec.writes = {hidden("hidden")};
        spec.saved = {hidden("straight")};
        spec.deferred = {hidden("d_straight")};
        return spec;
    }
};

/// hidden = hidden + memory weight^T. The order of the two wires and the end of one are arguments.
class Mix final : public Layer {
  public:
    enum class Order : std::uint8_t { hidden_first, memory_first };

    Mix(LayerId id, Order order, const std::vector<std::string>& ends)
        : Layer{make_spec(id, order, ends), id},
          hidden_{order == Order::hidden_first ? 0U : 1U},
          memory_{1U - hidden_} {}

    void forward(Stream& stream, const Pass&, const LayerTensors& t) const override {
        stream.linear(t.scratch[0], t.inputs[memory_], t.parameters[0], std::nullopt);
        stream.add(t.outputs[0], t.inputs[hidden_], t.scratch[0]);
    }
    void backward_input(Stream& stream, const Pass&, const LayerTensors& t) const override {
        stream.copy(t.d_inputs[hidden_], t.d_outputs[0]);
        stream.linear_backward_input(t.d_inputs[memory_], t.d_outputs[0], t.parameters[0]);
        stream.copy(t.deferred[0], t.d_outputs[0]);
    }
    void backward_weight(Stream& stream, const Pass&, const LayerTensors& t) const override {
        stream.linear_backward_weight(t.gradients[0], std::nullopt, t.deferred[0],
                                      t.inputs[memory_]);
    }

  private:
    static LayerSpec make_spec(LayerId id, Order order, const std::vector<std::string>& ends) {
        LayerSpec spec;
        spec.name = "mix." + std::to_string(id.value());
        spec.parameters = {matrix("weight", channels, channels)};
        spec.reads = {"hidden", "memory"};
        if (order == Order::memory_first) std::swap(spec.reads[0], spec.reads[1]);
        spec.writes = {hidden("hidden")};
        spec.ends = ends;
        spec.deferred = {hidden("d_out")};
        spec.scratch = {hidden("mixed")};
        return spec;
    }

    std::size_t hidden_;
    std::size_t memory_;
};

/// Logits and cross-entropy.
class Classify final : public Layer {
  public:
    Classify(LayerId id, const std::vector<std::string>& ends) : Layer{make_spec(ends), id} {}

    void forward(Stream& stream, const Pass& pass, const LayerTensors& t) const override {
        stream.linear(t.saved[0], t.inputs[0], t.parameters[0], std::nullopt);
        stream.cross_entropy(t.loss, t.saved[0], t.fields[0], pass.gradient_scale);
    }
    void backward_input(Stream& stream, const Pass&, const LayerTensors& t) const override {
        stream.linear_backward_input(t.d_inputs[0], t.saved[0], t.parameters[0]);
    }
    void backward_weight(Stream& stream, const Pass&, const LayerTensors& t) const override {
        stream.linear_backward_weight(t.gradients[0], std::nullopt, t.saved[0], t.inputs[0]);
    }

  private:
    static LayerSpec make_spec(const std::vector<std::string>& ends) {
        LayerSpec spec;
        spec.name = "classify";
        spec.parameters = {matrix("weight", vocabulary, channels)};
        spec.fields = {"targets"};
        spec.reads = {"hidden"};
        spec.ends = ends;
        spec.saved = {{"logits", Shape{rows, context, vocabulary}, DType::f64}};
        spec.loss = model::Loss::adds;
        return spec;
    }
};

///   embed -- memory --+-----------------+-------+
///                     v                 v       v
///                   bend --- bend ---- mix --- mix --- classify
///                      hidden   hidden    hidden  hidden
///
/// Layer 2 replaces `hidden` while `memory` passes it by; layers 1, 3 and 4 read `memory`, which
/// ends there or crosses one border more, read by nobody.
enum class MemoryEnds : std::uint8_t { with_its_last_reader, with_the_network };

inline model::Network wire_network(MemoryEnds ends = MemoryEnds::with_its_last_reader) {
    std::vector<std::string> ends_at_mix;
    std::vector<std::string> ends_at_last{"hidden"};
    (ends == MemoryEnds::with_the_network ? ends_at_last : ends_at_mix).emplace_back("memory");
    std::vector<std::unique_ptr<Layer>> layers;
    layers.push_back(std::make_unique<Embed>(LayerId{0}));
    layers.push_back(std::make_unique<Bend>(LayerId{1}, "memory"));
    layers.push_back(std::make_unique<Bend>(LayerId{2}, "hidden"));
    layers.push_back(
        std::make_unique<Mix>(LayerId{3}, Mix::Order::hidden_first, std::vector<std::string>{}));
    layers.push_back(std::make_unique<Mix>(LayerId{4}, Mix::Order::memory_first, ends_at_mix));
    layers.push_back(std::make_unique<Classify>(LayerId{5}, ends_at_last));
    return model::Network{std::move(layers), 50};
}

}  // namespace rhizome::tests::wires
