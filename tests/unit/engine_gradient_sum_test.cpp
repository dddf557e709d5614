// The order of a step's sum. Three numbers tell an order of addition apart when their sizes differ
// enough; here every microbatch adds one number to a one-element "network" gradient, and the result
// must be the one that a direct reading of docs/MATHEMATICS.md gives.
#include "engine/gradient_sum.hpp"

#include <algorithm>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace rhizome::tests {
namespace {

LayerTable one_number() {
    LayerFacts layer;
    layer.name = "only";
    layer.parameters = {{.spec = {"number", Shape{1}, DType::f32}}};
    return {.layers = {layer}, .chunk_elements = 1};
}

/// Sizes over many powers of two, so that the order of addition decides the last bits.
std::vector<float> awkward_numbers(std::int32_t count, std::uint64_t seed) {
    std::vector<float> numbers;
    std::mt19937_64 random{seed};
    for (std::int32_t i = 0; i < count; ++i) {
        const float size = std::ldexp(1.0F, static_cast<int>(random() % 30));
        numbers.push_back((uniform(static_cast<std::uint32_t>(random())) - 0.5F) * size);
    }
    return numbers;
}

/// The definition, word for word.
float tree_sum(const std::vector<float>& lanes, std::size_t first, std::size_t last) {
    if (last - first == 1) return lanes[first];
    std::size_t left = 1;
    while (2 * left < last - first) left *= 2;
    return tree_sum(lanes, first, first + left) + tree_sum(lanes, first + left, last);
}

float defined_sum(const std::vector<float>& numbers, LaneShape lanes) {
    std::vector<float> sums;
    for (std::int32_t lane = 0; lane < lanes.lanes; ++lane) {
        float sum = 0;
        for (std::int32_t i = 0; i < lanes.length(); ++i) {
            sum += numbers[lanes.first_of(Lane{lane}).index() + static_cast<std::size_t>(i)];
        }
        sums.push_back(sum);
    }
    return tree_sum(sums, 0, sums.size());
}

class Summing {
  public:
    explicit Summing(LaneShape lanes)
        : table_{one_number()},
          device_{device::make_reference_device(1)},
          stream_{device_->make_stream()},
          sum_{*device_, table_, std::vector<LayerRange>{{0, 1}}, lanes, {0, lanes.lanes}},
          all_{0, lanes.lanes} {}

    void add(Microbatch microbatch, float number) {
        const device::Tensor to = sum_.accumulator(*stream_, microbatch).at(number_);
        float value = 0;
        stream_->download(std::as_writable_bytes(std::span{&value, 1}), to);
        stream_->synchronize();
        value += number;
        stream_->upload(to, std::as_bytes(std::span{&value, 1}));
        stream_->synchronize();
        sum_.done(*stream_, microbatch);
    }
    float total() {
        float value = 0;
        stream_->download(std::as_writable_bytes(std::span{&value, 1}), sum_.of(all_).at(number_));
        stream_->synchronize();
        return value;
    }
    engine::GradientSum& sum() { return sum_; }
    bool complete() const { return sum_.complete(all_); }

  private:
    TensorRef number_{LayerId{0}, 0};
    LayerTable table_;
    std::unique_ptr<device::Device> device_;
    std::unique_ptr<device::Stream> stream_;
    engine::GradientSum sum_;
    LaneRange all_;
};

TEST(GradientSum, IsTheDefinedTreeForAnyNumberOfLanes) {
    std::set<bool> order_mattered;
    for (std::int32_t lanes = 1; lanes <= 17; ++lanes) {
        for (const std::int32_t length : {1, 3}) {
            const LaneShape shape{lanes * length, lanes};
            const auto numbers = awkward_numbers(shape.microbatches, 100 + shape.microbatches);
            std::vector<std::int32_t> lane_order(static_cast<std::size_t>(lanes));
            for (std::int32_t i = 0; i < lanes; ++i) lane_order[static_cast<std::size_t>(i)] = i;
            std::mt19937_64 random{7};
            std::shuffle(lane_order.begin(), lane_order.end(), random);

            Summing summing{shape};
            for (const std::int32_t lane : lane_order) {
                for (std::int32_t i = 0; i < length; ++i) {
                    const Microbatch m{shape.first_of(Lane{lane}).value() + i};
                    summing.add(m, numbers[m.index()]);
                }
            }

            EXPECT_EQ(summing.total(), defined_sum(numbers, shape)) << lanes << " x " << length;
            float left_to_right = 0;
            for (const float number : numbers) left_to_right += number;
            order_mattered.insert(left_to_right != defined_sum(numbers, shape));
        }
    }
    EXPECT_TRUE(order_mattered.contains(true)) << "the numbers were not awkward enough";
}

TEST(GradientSum, StartsAgainFromZeroAfterClear) {
    Summing summing{{4, 2}};
    for (std::int32_t m = 0; m < 3; ++m) summing.add(Microbatch{m}, 1.0F);
    summing.sum().clear();  // in the middle of a step
    for (std::int32_t m = 0; m < 4; ++m) summing.add(Microbatch{m}, 2.0F);
    EXPECT_EQ(summing.total(), 8.0F);
}

TEST(GradientSum, IsCompleteOnlyWithTheLastMicrobatch) {
    Summing summing{{6, 3}};
    for (const std::int32_t m : {4, 5, 0, 1, 2}) {
        summing.add(Microbatch{m}, 1.0F);
        EXPECT_FALSE(summing.complete()) << m;
    }
    summing.add(Microbatch{3}, 1.0F);
    EXPECT_TRUE(summing.complete());
}

TEST(GradientSum, GoesOnWithTheLanesOfAnother) {
    for (std::int32_t lanes = 2; lanes <= 9; ++lanes) {
        const LaneShape shape{2 * lanes, lanes};
        const auto numbers = awkward_numbers(shape.microbatches, 50 + lanes);
        for (unsigned kept = 0; kept < 1U << lanes; ++kept) {
            Summing before{shape};
            const auto add_lane = [&](Summing& to, std::int32_t lane, std::int32_t microbatches) {
                for (std::int32_t i = 0; i < microbatches; ++i) {
                    const Microbatch m{2 * lane + i};
                    to.add(m, numbers[m.index()]);
                }
            };
            std::vector<Lane> kept_lanes;
            for (std::int32_t lane = lanes; lane-- > 0;) {
                const bool whole = (kept >> lane & 1) != 0;
                add_lane(before, lane, whole ? 2 : 1);
                if (whole) kept_lanes.insert(kept_lanes.begin(), Lane{lane});
            }
            std::vector<bool> done(static_cast<std::size_t>(lanes));
            for (const Lane lane : kept_lanes) done[lane.index()] = true;
            EXPECT_EQ(before.sum().lanes_done(), done);
            before.sum().keep_complete();
            EXPECT_EQ(before.sum().lanes_done(), done);

            Summing after{shape};
            after.sum().take(before.sum(), kept_lanes);
            for (std::int32_t lane = 0; lane < lanes; ++lane) {
                if ((kept >> lane & 1) == 0) add_lane(after, lane, 2);
            }
            EXPECT_EQ(after.total(), defined_sum(numbers, shape)) << lanes << " lanes, " << kept;
        }
    }
}

}  // namespace
}  // namespace rhizome::tests
