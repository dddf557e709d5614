// Operations of the reference device that go through whole rows or tensors: norm, cross-entropy,
// sum of squares, AdamW.
#include <gmock/gmock.h>

#include <numeric>

#include "support/device_case.hpp"

namespace rhizome::tests {
namespace {

using device::AdamWStep;
using device::Tensor;
using testing::Each;
using testing::ElementsAre;
using testing::ExitedWithCode;

using Rows = DeviceCase;
INSTANTIATE_TEST_SUITE_P(Types, Rows, testing::Values(DType::f32, DType::f64), name_of_dtype);

constexpr std::array sizes{std::pair{1, 7}, std::pair{7, 13}, std::pair{5, 33}, std::pair{13, 65}};

TEST_P(Rows, NormTakesOutMeanAndDeviationThenScalesAndShifts) {
    // Mean 4 and variance 6; mean -1 and variance 0.
    const Tensor x = put(Shape{2, 3}, {1, 4, 7, -1, -1, -1});
    const Tensor out = poisoned(Shape{2, 3});
    const Tensor mean = poisoned(Shape{2});
    const Tensor inverse = poisoned(Shape{2});
    stream.norm(out, mean, inverse, x, put(Shape{3}, {1, 2, 3}), put(Shape{3}, {10, 20, 30}));
    const double deviation = std::sqrt(6 + 1e-5);
    expect_close(read(mean), {4, -1}, tolerance());
    expect_close(read(inverse), {1 / deviation, 1 / std::sqrt(1e-5)}, tolerance());
    expect_close(read(out), {10 - 3 / deviation, 20, 30 + 9 / deviation, 10, 20, 30}, tolerance());
}

TEST_P(Rows, NormOfOneChannelIsItsBias) {
    const Tensor out = poisoned(Shape{3, 1});
    const Tensor mean = poisoned(Shape{3});
    stream.norm(out, mean, poisoned(Shape{3}), put(Shape{3, 1}, {5, -6, 7}), put(Shape{1}, {9}),
                put(Shape{1}, {0.5}));
    EXPECT_THAT(read(out), Each(0.5));
    EXPECT_THAT(read(mean), ElementsAre(5, -6, 7));
}

TEST_P(Rows, NormBackwardIsTheJacobianOfItsFormula) {
    for (const auto& [rows, channels] : sizes) {
        const Shape shape{rows, channels};
        const Tensor x = random(shape, 1);
        const Tensor weight = random(Shape{channels}, 2);
        const Tensor d_out = random(shape, 3);
        const Tensor mean = poisoned(Shape{rows});
        const Tensor inverse = poisoned(Shape{rows});
        const Tensor d_weight = put(Shape{channels}, std::vector<double>(channels, 2.0));
        const Tensor d_bias = put(Shape{channels}, std::vector<double>(channels, 3.0));
        const Tensor d_x = poisoned(shape);
        stream.norm(poisoned(shape), mean, inverse, x, weight, random(Shape{channels}, 4));
        stream.norm_backward_input(d_x, d_out, x, mean, inverse, weight);
        stream.norm_backward_weight(d_weight, d_bias, d_out, x, mean, inverse);

        const auto n = static_cast<std::size_t>(channels);
        const std::vector<double> values = read(x);
        const std::vector<double> gradient = read(d_out);
        const std::vector<double> scales = read(weight);
        std::vector<double> expected(values.size());
        std::vector<double> expected_weight(n, 2.0);
        std::vector<double> expected_bias(n, 3.0);
        for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
            const double middle = read(mean)[r];
            const double factor = read(inverse)[r];
            const auto z = [&](std::size_t c) { return (values[r * n + c] - middle) * factor; };
            for (std::size_t i = 0; i < n; ++i) {
                const double g = gradient[r * n + i];
                for (std::size_t j = 0; j < n; ++j) {
                    // d z_i / d x_j
                    const double same = i == j ? 1.0 : 0.0;
                    expected[r * n + j] +=
                        g * scales[i] * factor * (same - 1.0 / channels - z(i) * z(j) / channels);
                }
                expected_weight[i] += g * z(i);
                expected_bias[i] += g;
            }
        }
        expect_close(read(d_x), expected, 20 * tolerance());
        expect_close(read(d_weight), expected_weight, tolerance());
        expect_close(read(d_bias), expected_bias, tolerance());
    }
}

TEST_P(Rows, CrossEntropyGivesTheLossAndTheScaledGradient) {
    // Probabilities 1/4, 3/4 and 1/2, 1/2.
    const Tensor logits = put(Shape{2, 2}, {0, std::log(3.0), 5, 5});
    const Tensor loss = bench.poisoned(Shape{}, DType::f64);
    stream.cross_entropy(loss, logits, integers(Shape{2}, {1, 0}), 0.5);
    EXPECT_NEAR(read(loss)[0], std::log(4.0 / 3.0) + std::log(2.0), tolerance());
    expect_close(read(logits), {0.125, -0.125, -0.25, 0.25}, tolerance());
}

TEST_P(Rows, CrossEntropyDoesNotOverflowOnLargeLogits) {
    const Tensor logits = put(Shape{4, 2}, {1e4, 1e4, -1e4, -1e4, 1e4, -1e4, -1e4, 1e4});
    const Tensor loss = bench.poisoned(Shape{}, DType::f64);
    stream.cross_entropy(loss, logits, integers(Shape{4}, {0, 1, 1, 1}), 1.0);
    EXPECT_NEAR(read(loss)[0], 2 * std::log(2.0) + 2e4, 2e4 * tolerance());
    EXPECT_THAT(read(logits), ElementsAre(-0.5, 0.5, 0.5, -0.5, 1, -1, 0, 0));
}

TEST_P(Rows, CrossEntropyFollowsTheFormulaAtEverySize) {
    for (const auto& [rows, classes] : sizes) {
        const auto n = static_cast<std::size_t>(classes);
        const Tensor logits = random(Shape{rows, classes}, 1);
        const std::vector<double> x = read(logits);
        std::vector<double> targets;
        for (std::int32_t r = 0; r < rows; ++r) targets.push_back((r * 5 + 2) % classes);
        const Tensor loss = bench.poisoned(Shape{}, DType::f64);
        stream.cross_entropy(loss, logits, integers(Shape{rows}, targets), 0.25);

        double expected_loss = 0;
        std::vector<double> expected;
        for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
            double sum = 0;
            for (std::size_t v = 0; v < n; ++v) sum += std::exp(x[r * n + v]);
            for (std::size_t v = 0; v < n; ++v) {
                const double target = static_cast<double>(v) == targets[r] ? 1 : 0;
                expected.push_back(0.25 * (std::exp(x[r * n + v]) / sum - target));
                if (target == 1) expected_loss -= std::log(std::exp(x[r * n + v]) / sum);
            }
        }
        EXPECT_NEAR(read(loss)[0], expected_loss, expected_loss * tolerance());
        expect_close(read(logits), expected, tolerance());
    }
}

TEST_P(Rows, CrossEntropyAddsRowsInTheirOrderInDoublePrecision) {
    // The first rows' losses are small and the last ones' large, so the order shows in the last
    // bit.
    const Tensor logits = random(Shape{65, 7}, 2);
    std::vector<double> x = read(logits);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= std::pow(1.2, i / 7);
    bench.write(logits, x);
    x = read(logits);
    const Tensor loss = bench.poisoned(Shape{}, DType::f64);
    std::vector<double> losses;
    for (auto row = x.begin(); row != x.end(); row += 7) {
        stream.cross_entropy(loss, put(Shape{1, 7}, {row, row + 7}), integers(Shape{1}, {3}), 1.0);
        losses.push_back(read(loss)[0]);
    }
    const double ascending = std::accumulate(losses.begin(), losses.end(), 0.0);
    const double descending = std::accumulate(losses.rbegin(), losses.rend(), 0.0);
    if (dtype() == DType::f64) {  // sums of floats are exact
        EXPECT_NE(ascending, descending) << "no order would show";
    }
    stream.cross_entropy(loss, logits, integers(Shape{65}, std::vector<double>(65, 3.0)), 1.0);
    EXPECT_EQ(read(loss)[0], ascending);
}

TEST(CrossEntropyDeathTest, RefusesTargetsOutsideTheVocabulary) {
    Workbench bench;
    const Tensor logits = bench.random(Shape{1, 3}, DType::f32, 1);
    const Tensor loss = bench.poisoned(Shape{}, DType::f64);
    for (const double outside : {-1.0, 3.0}) {
        const Tensor targets = bench.put(Shape{1}, DType::i32, {outside});
        EXPECT_EXIT(bench.stream().cross_entropy(loss, logits, targets, 1.0), ExitedWithCode(1),
                    "broken promise");
    }
}

TEST_P(Rows, SumOfSquaresAddsInElementOrderInDoublePrecision) {
    const Tensor sum = bench.poisoned(Shape{}, DType::f64);
    stream.sum_of_squares(sum, put(Shape{2, 2}, {1, -2, 3, 0.5}));
    EXPECT_EQ(read(sum)[0], 14.25);
    // 2^53 + 1 is 2^53 again, so the order shows: small numbers first would count.
    const double large = 0x1p+26 + 0.0;
    stream.sum_of_squares(sum, put(Shape{4}, {2 * large, 1, 1, 1}));
    EXPECT_EQ(read(sum)[0], 0x1p+54);
    stream.sum_of_squares(sum, put(Shape{4}, {2, 2, 2, 2 * large}));
    EXPECT_EQ(read(sum)[0], 0x1p+54 + 12);
    for (const std::int64_t size : {1, 7, 33, 65}) {
        const Tensor x = random(Shape{size}, 3);
        double chain = 0;
        for (const double value : read(x)) chain += value * value;
        stream.sum_of_squares(sum, x);
        EXPECT_EQ(read(sum)[0], chain);
    }
}

/// All exact in both precisions: g = 1, m = 0.75, v = 1; m / 0.5 = 1.5, sqrt(v / 0.25) + 1 = 3.
constexpr AdamWStep by_hand{.rate = 0.25,
                            .decay = 0.5,
                            .beta1 = 0.5,
                            .beta2 = 0.75,
                            .epsilon = 1.0,
                            .gradient_scale = 0.5,
                            .first_correction = 0.5,
                            .second_correction = 0.25};

TEST_P(Rows, AdamwTakesTheStepThatOneComputesByHand) {
    const Tensor p = put(Shape{2}, {1, -2});
    const Tensor m = put(Shape{2}, {0.5, 0.5});
    const Tensor v = put(Shape{2}, {1, 1});
    const Tensor gradient = put(Shape{2}, {2, 2});
    stream.adamw(p, m, v, gradient, by_hand);
    EXPECT_THAT(read(m), ElementsAre(0.75, 0.75));
    EXPECT_THAT(read(v), ElementsAre(1, 1));
    EXPECT_THAT(read(p), ElementsAre(0.875 - 0.125, -1.75 - 0.125));
    EXPECT_THAT(read(gradient), ElementsAre(2, 2)) << "the gradient is only read";

    AdamWStep without_decay = by_hand;
    without_decay.decay = 0;
    bench.write(p, {1, -2});
    bench.write(m, {0.5, 0.5});
    bench.write(v, {1, 1});
    stream.adamw(p, m, v, gradient, without_decay);
    EXPECT_THAT(read(p), ElementsAre(1 - 0.125, -2 - 0.125));
}

TEST_P(Rows, AdamwFollowsTheFormulaOverSeveralStepsAtEverySize) {
    for (const std::int64_t size : {1, 7, 33, 65}) {
        const Tensor p = random(Shape{size}, 1);
        const Tensor m = put(Shape{size}, std::vector<double>(static_cast<std::size_t>(size)));
        const Tensor v = put(Shape{size}, std::vector<double>(static_cast<std::size_t>(size)));
        std::vector<double> expected = read(p);
        std::vector<double> first(expected.size());
        std::vector<double> second(expected.size());
        for (std::int32_t step = 0; step < 5; ++step) {
            const double t = step + 1;
            const AdamWStep constants{.rate = 0.01 / t,
                                      .decay = 0.1,
                                      .beta1 = 0.9,
                                      .beta2 = 0.95,
                                      .epsilon = 1e-8,
                                      .gradient_scale = 0.5,
                                      .first_correction = 1 - std::pow(0.9, t),
                                      .second_correction = 1 - std::pow(0.95, t)};
            const Tensor gradient = random(Shape{size}, 10 + static_cast<std::uint64_t>(step));
            stream.adamw(p, m, v, gradient, constants);
            for (std::size_t i = 0; i < expected.size(); ++i) {
                const double g = 0.5 * read(gradient)[i];
                first[i] = 0.9 * first[i] + 0.1 * g;
                second[i] = 0.95 * second[i] + 0.05 * g * g;
                expected[i] -= constants.rate * 0.1 * expected[i];
                expected[i] -= constants.rate * (first[i] / constants.first_correction) /
                               (std::sqrt(second[i] / constants.second_correction) + 1e-8);
            }
        }
        expect_close(read(p), expected, 5 * tolerance());
        expect_close(read(m), first, 5 * tolerance());
        expect_close(read(v), second, 5 * tolerance());
    }
}

}  // namespace
}  // namespace rhizome::tests
