// A wire that passes some layers by and is read by several: its gradient is the sum of what all its
// readers give.
#include <gmock/gmock.h>

#include "oracle/microbatch_slot.hpp"
#include "support/finite_differences.hpp"
#include "support/small_gpt.hpp"
#include "support/wire_network.hpp"

namespace rhizome::tests {
namespace {

using device::Tensor;
using engine::Recompute;
using model::Pass;
using model::TensorSet;
using model::TiedTensors;
using wires::rows;

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
    model::Network network = wires::wire_network();
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
