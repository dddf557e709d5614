#include "model/optimizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/gpt.hpp"
#include "support/device_case.hpp"

namespace rhizome::tests {
namespace {

using device::AdamWStep;
using device::Tensor;
using model::adamw_step;
using model::clip_scale;
using model::learning_rate;
using model::OptimizerConfig;
using model::TensorSet;
using model::TiedTensors;
using testing::ElementsAre;

OptimizerConfig schedule(std::int32_t warmup, std::int32_t decay) {
    OptimizerConfig config;
    config.learning_rate = 1.0;
    config.final_learning_rate = 0.25;
    config.warmup_steps = warmup;
    config.decay_steps = decay;
    return config;
}

TEST(LearningRate, RisesInEqualStepsToThePeak) {
    const OptimizerConfig config = schedule(4, 12);
    EXPECT_EQ(learning_rate(config, Step{0}), 0.25);
    EXPECT_EQ(learning_rate(config, Step{1}), 0.5);
    EXPECT_EQ(learning_rate(config, Step{2}), 0.75);
    EXPECT_EQ(learning_rate(config, Step{3}), 1.0);
}

TEST(LearningRate, FallsAlongACosineToItsFinalValueAndStaysThere) {
    const OptimizerConfig config = schedule(4, 12);
    EXPECT_EQ(learning_rate(config, Step{4}), 1.0);
    const double quarter = (1 + std::sqrt(0.5)) / 2;  // a quarter of the way down
    EXPECT_NEAR(learning_rate(config, Step{6}), 0.25 + 0.75 * quarter, 1e-15);
    EXPECT_NEAR(learning_rate(config, Step{8}), 0.625, 1e-15);
    EXPECT_NEAR(learning_rate(config, Step{10}), 0.25 + 0.75 * (1 - quarter), 1e-15);
    EXPECT_GT(learning_rate(config, Step{11}), 0.25);
    EXPECT_EQ(learning_rate(config, Step{12}), 0.25);
    EXPECT_EQ(learning_rate(config, Step{13}), 0.25);
    EXPECT_EQ(learning_rate(config, Step{2000000000}), 0.25);
}

TEST(LearningRate, BeginsAtThePeakWithoutWarmUp) {
    const OptimizerConfig config = schedule(0, 2);
    EXPECT_EQ(learning_rate(config, Step{0}), 1.0);
    EXPECT_NEAR(learning_rate(config, Step{1}), 0.625, 1e-15);
    EXPECT_EQ(learning_rate(config, Step{2}), 0.25);
}

TEST(LearningRate, DropsAtOnceWhenWarmUpAndDecayEndTogether) {
    const OptimizerConfig config = schedule(4, 4);
    EXPECT_EQ(learning_rate(config, Step{3}), 1.0);
    EXPECT_EQ(learning_rate(config, Step{4}), 0.25);
    EXPECT_EQ(learning_rate(schedule(0, 0), Step{0}), 0.25);
}

TEST(ClipScale, LeavesSmallGradientsAloneAndShortensLongOnes) {
    OptimizerConfig config;
    config.clip_norm = 2;
    EXPECT_EQ(clip_scale(config, 0), 1);
    EXPECT_EQ(clip_scale(config, 1.9), 1);
    EXPECT_EQ(clip_scale(config, 2), 2 / 2.000001) << "the page's 1e-6 counts";
    EXPECT_EQ(clip_scale(config, 8), 2 / 8.000001);
    EXPECT_NEAR(clip_scale(config, 1e30) * 1e30, 2, 1e-15);
}

TEST(ClipScale, OfZeroMeansNoClipping) {
    OptimizerConfig config;
    config.clip_norm = 0;
    EXPECT_EQ(clip_scale(config, 0), 1);
    EXPECT_EQ(clip_scale(config, 1e30), 1);
}

TEST(AdamwStep, TakesItsConstantsFromConfigStepNormAndGroup) {
    OptimizerConfig config = schedule(4, 12);
    config.beta1 = 0.5;
    config.beta2 = 0.75;
    config.epsilon = 1e-3;
    config.weight_decay = 0.1;
    config.clip_norm = 2;
    const AdamWStep weights = adamw_step(config, Step{1}, 8, Decay::weight);
    EXPECT_EQ(weights.rate, 0.5);
    EXPECT_EQ(weights.decay, 0.1);
    EXPECT_EQ(weights.beta1, 0.5);
    EXPECT_EQ(weights.beta2, 0.75);
    EXPECT_EQ(weights.epsilon, 1e-3);
    EXPECT_EQ(weights.gradient_scale, 2 / 8.000001);
    EXPECT_EQ(weights.first_correction, 0.75) << "1 - 0.5^2: steps count from 0, t from 1";
    EXPECT_EQ(weights.second_correction, 0.4375);
    const AdamWStep biases = adamw_step(config, Step{1}, 8, Decay::none);
    EXPECT_EQ(biases.decay, 0);
    EXPECT_EQ(biases.rate, 0.5);
    EXPECT_EQ(biases.gradient_scale, weights.gradient_scale);
}

using AdamW = DeviceCase;
INSTANTIATE_TEST_SUITE_P(Types, AdamW, testing::Values(DType::f32, DType::f64), name_of_dtype);

/// Constant rate 1/4; all further numbers are exact in both precisions.
OptimizerConfig exact_config() {
    OptimizerConfig config;
    config.learning_rate = 0.25;
    config.final_learning_rate = 0.25;
    config.beta1 = 0.5;
    config.beta2 = 0.75;
    config.epsilon = 1;
    config.weight_decay = 0.5;
    config.clip_norm = 0;
    return config;
}

TEST_P(AdamW, TakesTheFirstStepThatOneComputesByHandInBothGroups) {
    // m = 0.5 * 0.5 + 0.5 * 1, v = 0.75 * 1 + 0.25 * 1; m / 0.5 = 1.5, sqrt(v / 0.25) + 1 = 3.
    for (const Decay decay : {Decay::weight, Decay::none}) {
        const Tensor p = put(Shape{1}, {1});
        const Tensor m = put(Shape{1}, {0.5});
        const Tensor v = put(Shape{1}, {1});
        stream.adamw(p, m, v, put(Shape{1}, {1}), adamw_step(exact_config(), Step{0}, 1, decay));
        EXPECT_THAT(read(m), ElementsAre(0.75));
        EXPECT_THAT(read(v), ElementsAre(1));
        const double decayed = decay == Decay::weight ? 1 - 0.25 * 0.5 : 1;
        EXPECT_THAT(read(p), ElementsAre(decayed - 0.25 * 1.5 / 3));
    }
}

TEST_P(AdamW, GivesTheSameBitsByChunkAndWhole) {
    constexpr std::int64_t size = 103;
    const Tensor gradient = random(Shape{size}, 1);
    const AdamWStep constants = adamw_step(schedule(4, 12), Step{2}, 3, Decay::weight);
    const auto updated = [&](std::int64_t chunk) {
        const Tensor p = random(Shape{size}, 2);
        const Tensor m = random(Shape{size}, 3);
        const Tensor v = put(Shape{size}, std::vector<double>(size, 0.01));
        for (std::int64_t first = 0; first < size; first += chunk) {
            const std::int64_t count = std::min(chunk, size - first);
            stream.adamw(p.slice(first, count), m.slice(first, count), v.slice(first, count),
                         gradient.slice(first, count), constants);
        }
        return std::vector{bench.bytes(p), bench.bytes(m), bench.bytes(v)};
    };
    const auto whole = updated(size);
    for (const std::int64_t chunk : {1, 7, 10, 64, 102}) EXPECT_EQ(updated(chunk), whole) << chunk;
}

model::Network small_network(DType dtype, std::int64_t chunk_elements) {
    return model::make_gpt({.blocks = 2,
                            .channels = 8,
                            .heads = 2,
                            .context = 5,
                            .vocabulary = 11,
                            .tying = model::Tying::tied,
                            .dropout = 0.0},
                           1, dtype, chunk_elements);
}

TEST_P(AdamW, MomentsBeginAtZeroAndExistOncePerOwnedTensor) {
    const model::Network network = small_network(dtype(), 50);
    const model::Moments moments{bench.device(), stream, network.table()};
    for (const TensorSet* set : {&moments.first, &moments.second}) {
        EXPECT_THAT(read(set->whole()), testing::Each(0.0));
        const TensorRef head{LayerId{4}, 0};
        EXPECT_EQ(set->at(head).data, set->at({LayerId{0}, 0}).data);
    }
    EXPECT_NE(moments.first.whole().data, moments.second.whole().data);
}

using Squares = DeviceCase;
INSTANTIATE_TEST_SUITE_P(Types, Squares, testing::Values(DType::f32, DType::f64), name_of_dtype);

TEST_P(Squares, AreSummedByChunkInTheOrderOfIdentity) {
    for (const std::int64_t chunk_elements : {1, 7, 50, 10000}) {
        const model::Network network = small_network(dtype(), chunk_elements);
        const LayerTable& table = network.table();
        const TensorSet gradient{bench.device(), table, TiedTensors::separate};
        std::vector<double> expected;
        std::uint64_t seed = 0;
        for (std::int32_t layer = 0; layer < network.size(); ++layer) {
            for (const Tensor& tensor : gradient.of(LayerId{layer})) {
                bench.write(tensor, random_numbers(tensor.elements(), ++seed));
                if (layer == network.size() - 1) continue;  // the head is tied and counts no more
                const std::vector<double> values = read(tensor);
                for (std::size_t first = 0; first < values.size();) {
                    double sum = 0;
                    for (std::int64_t i = 0; i < chunk_elements && first < values.size(); ++i) {
                        sum += values[first] * values[first];
                        ++first;
                    }
                    expected.push_back(sum);
                }
            }
        }
        EXPECT_EQ(squares_by_chunk(bench.device(), stream, table, gradient), expected);
    }
}

}  // namespace
}  // namespace rhizome::tests
