// A wire that passes some layers by and is read by several: its gradient is the sum of what all its
// readers give. GPT has no such wire, so a toy network with one stands in for those that do.
#include <gmock/gmock.h>

#include "model/gpt.hpp"
#include "oracle/microbatch_slot.hpp"
#include "support/finite_differences.hpp"
#include "support/small_gpt.hpp"

namespace rhizome::tests {
namespace {

using device::Stream;
using device::Tensor;
using engine::Recompute;
using model::Layer;
using model::LayerSpec;
using model::LayerTensors;
using model::Pass;
using model::TensorSet;
using model::TiedTensors;

constexpr std::int32_t rows = 2;
constexpr std::int64_t context = 5;
constexpr std::int64_t channels = 3;
constexpr std::int64_t vocabulary = 11;

TensorSpec hidden(const std::string& name) {
    return {name, Shape{rows, context, channels}, DType::f64};
}
model::ParameterSpec matrix(const std::string& name, std::int64_t outputs, std::int64_t inputs) {
    return {.spec = {name, Shape{outputs, inputs}, DType::f64}};
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
    explicit Classify(LayerId id) : Layer{make_spec(), id} {}

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
    static LayerSpec make_spec() {
        LayerSpec spec;
        spec.name = "classify";
        spec.parameters = {matrix("weight", vocabulary, channels)};
        spec.fields = {"targets"};
        spec.reads = {"hidden"};
        spec.ends = {"hidden"};
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
/// Layer 2 replaces `hidden` while `memory` passes it by; layers 1, 3 and 4 read `memory`.
model::Network toy_network() {
    std::vector<std::unique_ptr<Layer>> layers;
    layers.push_back(std::make_unique<Embed>(LayerId{0}));
    layers.push_back(std::make_unique<Bend>(LayerId{1}, "memory"));
    layers.push_back(std::make_unique<Bend>(LayerId{2}, "hidden"));
    layers.push_back(
        std::make_unique<Mix>(LayerId{3}, Mix::Order::hidden_first, std::vector<std::string>{}));
    layers.push_back(std::make_unique<Mix>(LayerId{4}, Mix::Order::memory_first,
                                           std::vector<std::string>{"memory"}));
    layers.push_back(std::make_unique<Classify>(LayerId{5}));
    return model::Network{std::move(layers), 50};
}

enum class WeightParts : std::uint8_t { at_once, last };

class SharedWire : public testing::TestWithParam<Recompute> {
  protected:
    SharedWire() {
        std::uint64_t seed = 0;
        for (const TensorRef ref : network.table().owned()) {
            const Tensor tensor = parameters.at(ref);
            bench.write(tensor, random_numbers(tensor.elements(), ++seed));
        }
    }

    oracle::MicrobatchSlot make_slot(Recompute recompute) {
        return {bench.device(), network, text.fields(), rows, recompute};
    }
    void load(oracle::MicrobatchSlot& slot, const std::vector<std::int64_t>& samples) {
        slot.load(bench.stream(), text, samples);
    }
    double loss(oracle::MicrobatchSlot& slot) {
        for (std::int32_t layer = 0; layer < network.size(); ++layer) {
            slot.forward(bench.stream(), pass, LayerId{layer}, parameters);
        }
        return slot.loss(bench.stream()) * pass.gradient_scale;
    }
    TensorSet gradients(oracle::MicrobatchSlot& slot, WeightParts when) {
        TensorSet sums{bench.device(), network.table(), TiedTensors::separate};
        bench.stream().zero(sums.whole());
        const auto weight_part = [&](std::int32_t layer) {
            slot.backward_weight(bench.stream(), pass, LayerId{layer}, parameters, sums);
        };
        loss(slot);
        for (std::int32_t layer = network.size() - 1; layer >= 0; --layer) {
            slot.backward_input(bench.stream(), pass, LayerId{layer}, parameters);
            if (when == WeightParts::at_once) weight_part(layer);
        }
        if (when == WeightParts::last) {
            for (std::int32_t layer = 0; layer < network.size(); ++layer) weight_part(layer);
        }
        return sums;
    }

    Workbench bench;
    model::Network network = toy_network();
    MemoryText text = small_text();
    TensorSet parameters{bench.device(), network.table(), TiedTensors::shared};
    const Pass pass{.mode = Pass::Mode::train,
                    .seed = 1,
                    .step = Step{0},
                    .microbatch = Microbatch{0},
                    .gradient_scale = 0.1};
};

INSTANTIATE_TEST_SUITE_P(Modes, SharedWire, testing::Values(Recompute::none, Recompute::all),
                         [](const auto& each) {
                             return each.param == Recompute::all ? "recomputed" : "kept";
                         });

TEST_P(SharedWire, HasThreeReadersAndALayerThatItPassesBy) {
    const model::WireValue memory{LayerId{0}, 0};
    std::vector<std::int32_t> readers;
    for (std::int32_t layer = 0; layer < network.size(); ++layer) {
        const auto& read = network.values_read(LayerId{layer});
        if (std::find(read.begin(), read.end(), memory) != read.end()) readers.push_back(layer);
    }
    EXPECT_THAT(readers, testing::ElementsAre(1, 3, 4));
    EXPECT_EQ(network.last_reader(memory), LayerId{4});
}

TEST_P(SharedWire, GetsTheSumOfItsReadersGradients) {
    oracle::MicrobatchSlot slot = make_slot(GetParam());
    load(slot, {3, 20});
    const TensorSet found = gradients(slot, WeightParts::at_once);
    for (const TensorRef ref : network.table().owned()) {
        SCOPED_TRACE(network.table().name_of(ref));
        const auto expected =
            finite_differences(bench, parameters.at(ref), [&] { return loss(slot); });
        EXPECT_GT(largest_of(expected), 0.01);
        expect_close(bench.read(found.at(ref)), expected, 1e-9);
    }
}

TEST_P(SharedWire, IsSummedAnewForTheSlotsNextMicrobatch) {
    oracle::MicrobatchSlot slot = make_slot(GetParam());
    load(slot, {3, 20});
    const TensorSet first = gradients(slot, WeightParts::at_once);
    load(slot, {7, 8});
    const TensorSet other = gradients(slot, WeightParts::at_once);
    load(slot, {3, 20});
    const TensorSet again = gradients(slot, WeightParts::at_once);
    EXPECT_NE(bench.bytes(other.whole()), bench.bytes(first.whole()));
    EXPECT_EQ(bench.bytes(again.whole()), bench.bytes(first.whole()));
}

TEST_P(SharedWire, GivesTheSameBitsRecomputedOrNotAndWheneverWeightPartsCome) {
    oracle::MicrobatchSlot slot = make_slot(GetParam());
    oracle::MicrobatchSlot other = make_slot(Recompute::none);
    load(slot, {3, 20});
    load(other, {3, 20});
    const TensorSet at_once = gradients(slot, WeightParts::at_once);
    const TensorSet last = gradients(other, WeightParts::last);
    EXPECT_EQ(bench.bytes(last.whole()), bench.bytes(at_once.whole()));
}

}  // namespace
}  // namespace rhizome::tests
