// The cpu backend against the reference backend in double precision, on the same numbers, at sizes
// that fill no vector, tile or block evenly.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/random.hpp"
#include "support/workbench.hpp"

namespace rhizome::device {
namespace {

using tests::Workbench;

/// One tensor on both devices.
struct Both {
    Tensor ours;
    Tensor judge;
};
enum class Side : std::uint8_t { ours, judge };

class CpuDevice : public testing::TestWithParam<std::int32_t> {
  protected:
    Both put(const Shape& shape, std::vector<double> values) {
        for (double& value : values) value = static_cast<float>(value);
        return {cpu_.put(shape, DType::f32, values), judge_.put(shape, DType::f64, values)};
    }
    Both random(const Shape& shape, std::uint64_t seed, double scale = 1) {
        std::vector<double> values = tests::random_numbers(shape.elements(), seed);
        for (double& value : values) value *= scale;
        return put(shape, std::move(values));
    }
    Both integers(const Shape& shape, const std::vector<double>& values) {
        return {cpu_.put(shape, DType::i32, values), judge_.put(shape, DType::i32, values)};
    }
    Both poisoned(const Shape& shape) {
        return {cpu_.poisoned(shape, DType::f32), judge_.poisoned(shape, DType::f64)};
    }
    /// For sums in double.
    Both scalar() {
        return {cpu_.poisoned(Shape{1}, DType::f64), judge_.poisoned(Shape{1}, DType::f64)};
    }

    /// body(stream, pick), where pick(both) is the tensor on the stream's device.
    template <class Body>
    void on_both(const Body& body) {
        body(cpu_.stream(), [](const Both& both) { return both.ours; });
        body(judge_.stream(), [](const Both& both) { return both.judge; });
    }

    /// Up to a few roundings, as a share of the largest number.
    void expect_same(const Both& both, const std::string& what, double tolerance = 3e-6) {
        const std::vector<double> ours = cpu_.read(both.ours);
        const std::vector<double> judge = judge_.read(both.judge);
        double largest = 1e-30;
        for (const double value : judge) largest = std::max(largest, std::abs(value));
        for (std::size_t i = 0; i < ours.size(); ++i) {
            ASSERT_NEAR(ours[i], judge[i], tolerance * largest) << what << ", element " << i;
        }
    }

    Workbench cpu_{make_cpu_device(GetParam())};
    Workbench judge_;
};

INSTANTIATE_TEST_SUITE_P(Threads, CpuDevice, testing::Values(1, 3));

const std::vector<std::int64_t> odd_sizes{1, 2, 15, 16, 17, 33, 50, 129};

TEST_P(CpuDevice, MultipliesLikeTheReference) {
    for (const std::int64_t rows : {1, 7, 65}) {
        for (const std::int64_t inputs : odd_sizes) {
            for (const std::int64_t outputs : {1, 19, 64, 131}) {
                const Both x = random(Shape{rows, inputs}, 1);
                const Both weight = random(Shape{outputs, inputs}, 2);
                const Both bias = random(Shape{outputs}, 3);
                const Both d_out = random(Shape{rows, outputs}, 4);
                const Both out = poisoned(Shape{rows, outputs});
                const Both plain = poisoned(Shape{rows, outputs});
                const Both d_x = poisoned(Shape{rows, inputs});
                const Both d_weight = random(Shape{outputs, inputs}, 5);
                const Both d_bias = random(Shape{outputs}, 6);
                on_both([&](Stream& stream, auto pick) {
                    stream.linear(pick(out), pick(x), pick(weight), pick(bias));
                    stream.linear(pick(plain), pick(x), pick(weight), std::nullopt);
                    stream.linear_backward_input(pick(d_x), pick(d_out), pick(weight));
                    stream.linear_backward_weight(pick(d_weight), pick(d_bias), pick(d_out),
                                                  pick(x));
                });
                expect_same(out, "linear");
                expect_same(plain, "linear without bias");
                expect_same(d_x, "gradient of inputs");
                expect_same(d_weight, "gradient of weights");
                expect_same(d_bias, "gradient of biases");
            }
        }
    }
}

TEST_P(CpuDevice, BendsLikeTheReference) {
    for (const std::int64_t elements : odd_sizes) {
        const Both x = random(Shape{elements}, 1, 6);
        const Both d_out = random(Shape{elements}, 2);
        const Both out = poisoned(Shape{elements});
        const Both d_x = poisoned(Shape{elements});
        on_both([&](Stream& stream, auto pick) {
            stream.gelu(pick(out), pick(x));
            stream.gelu_backward(pick(d_x), pick(d_out), pick(x));
        });
        expect_same(out, "gelu");
        expect_same(d_x, "gelu, backward");
    }
}

TEST_P(CpuDevice, NormalizesLikeTheReference) {
    for (const std::int64_t rows : {1, 5}) {
        for (const std::int64_t channels : odd_sizes) {
            if (channels <= 2) continue;  // of the gradient of so few nothing is left
            const Both x = random(Shape{rows, channels}, 1, 3);
            const Both weight = random(Shape{channels}, 2);
            const Both bias = random(Shape{channels}, 3);
            const Both d_out = random(Shape{rows, channels}, 4);
            const Both out = poisoned(Shape{rows, channels});
            const Both mean = poisoned(Shape{rows});
            const Both inverse = poisoned(Shape{rows});
            const Both d_x = poisoned(Shape{rows, channels});
            const Both d_weight = random(Shape{channels}, 5);
            const Both d_bias = random(Shape{channels}, 6);
            on_both([&](Stream& stream, auto pick) {
                stream.norm(pick(out), pick(mean), pick(inverse), pick(x), pick(weight),
                            pick(bias));
                stream.norm_backward_input(pick(d_x), pick(d_out), pick(x), pick(mean),
                                           pick(inverse), pick(weight));
                stream.norm_backward_weight(pick(d_weight), pick(d_bias), pick(d_out), pick(x),
                                            pick(mean), pick(inverse));
            });
            expect_same(out, "norm", 2e-5);
            expect_same(mean, "mean");
            expect_same(inverse, "inverse deviation");
            expect_same(d_x, "norm, gradient of inputs", 2e-5);
            expect_same(d_weight, "norm, gradient of weights", 2e-5);
            expect_same(d_bias, "norm, gradient of biases");
        }
    }
}

TEST_P(CpuDevice, AttendsLikeTheReference) {
    for (const std::int64_t positions : {1, 2, 17, 63, 64, 65, 130, 200}) {
        for (const std::int64_t width : {1, 6, 16, 20}) {
            for (const double probability : {0.0, 0.3}) {
                const std::int64_t rows = 2;
                const std::int64_t heads = 3;
                const std::int64_t channels = heads * width;
                std::optional<Dropout> dropout;
                if (probability > 0) {
                    const RandomSite site =
                        RandomSite::in_step(7, LayerId{1}, 0, Step{2}, Microbatch{3});
                    dropout = Dropout{probability, site};
                }
                const Both qkv = random(Shape{rows, positions, 3 * channels}, 1, 2);
                const Both d_out = random(Shape{rows, positions, channels}, 2);
                const Both out = poisoned(Shape{rows, positions, channels});
                const Both log_sum = poisoned(Shape{rows, heads, positions});
                const Both d_qkv = poisoned(Shape{rows, positions, 3 * channels});
                on_both([&](Stream& stream, auto pick) {
                    stream.attention(pick(out), pick(log_sum), pick(qkv), dropout);
                    stream.attention_backward(pick(d_qkv), pick(d_out), pick(out), pick(log_sum),
                                              pick(qkv), dropout);
                });
                expect_same(out, "attention");
                expect_same(log_sum, "logarithm of the sum");
                expect_same(d_qkv, "attention, backward", 1e-5);
            }
        }
    }
}

TEST_P(CpuDevice, FindsTheLossOfTheReference) {
    for (const std::int64_t vocabulary : odd_sizes) {
        const std::int64_t rows = 5;
        std::vector<double> targets;
        for (std::int64_t r = 0; r < rows; ++r) {
            targets.push_back(static_cast<double>((r * 31 + 4) % vocabulary));
        }
        const Both logits = random(Shape{rows, vocabulary}, 1, 20);
        const Both target = integers(Shape{rows}, targets);
        const Both loss = scalar();
        on_both([&](Stream& stream, auto pick) {
            stream.cross_entropy(pick(loss), pick(logits), pick(target), 0.01);
        });
        expect_same(loss, "loss");
        expect_same(logits, "gradient of logits");
    }
}

TEST_P(CpuDevice, AddsUpSquaresInElementOrderHoweverManyGoSideBySide) {
    for (const std::size_t count : {1U, 7U, 8U, 9U, 19U}) {
        std::vector<Both> all;
        for (std::size_t i = 0; i < count; ++i) {
            // The twelfth is of another size.
            all.push_back(random(Shape{i == 11 ? 50 : 129}, 40 + i));
        }
        const auto size = Shape{static_cast<std::int64_t>(count)};
        const Both sums{cpu_.poisoned(size, DType::f64), judge_.poisoned(size, DType::f64)};
        on_both([&](Stream& stream, const auto& pick) {
            std::vector<Tensor> tensors;
            for (const Both& each : all) tensors.push_back(pick(each));
            stream.sums_of_squares(pick(sums), tensors);
        });
        EXPECT_EQ(cpu_.read(sums.ours), judge_.read(sums.judge)) << count;
    }
}

TEST_P(CpuDevice, KeepsWhatIsNoNumberVisible) {
    const double none = std::numeric_limits<double>::quiet_NaN();
    for (const std::size_t place : {std::size_t{0}, std::size_t{20}, std::size_t{36}}) {
        std::vector<double> values = tests::random_numbers(37, 1);
        values[place] = none;
        const Both x = put(Shape{1, 37}, values);
        const Both out = poisoned(Shape{1, 37});
        cpu_.stream().gelu(out.ours, x.ours);
        EXPECT_TRUE(std::isnan(cpu_.read(out.ours)[place]));
        const Both target = integers(Shape{1}, {3});
        const Both loss = scalar();
        cpu_.stream().cross_entropy(loss.ours, x.ours, target.ours, 1);
        EXPECT_TRUE(std::isnan(cpu_.read(loss.ours)[0]));
    }
}

TEST_P(CpuDevice, GivesTheSameBitsEveryTime) {
    const Shape shape{2, 70, 3 * 48};
    std::vector<std::byte> before;
    for (int round = 0; round < 3; ++round) {
        Workbench bench{make_cpu_device(GetParam())};
        const Tensor qkv = bench.random(shape, DType::f32, 1);
        const Tensor out = bench.poisoned(Shape{2, 70, 48}, DType::f32);
        const Tensor log_sum = bench.poisoned(Shape{2, 4, 70}, DType::f32);
        const Tensor weight = bench.random(Shape{50, 48}, DType::f32, 2);
        const Tensor product = bench.poisoned(Shape{2, 70, 50}, DType::f32);
        bench.stream().attention(out, log_sum, qkv, std::nullopt);
        bench.stream().linear(product, out, weight, std::nullopt);
        const std::vector<std::byte> bytes = bench.bytes(product);
        if (round == 0) before = bytes;
        EXPECT_EQ(bytes, before);
    }
}

std::vector<Workbench> bf16_benches() {
    std::vector<Workbench> benches;
    benches.emplace_back(make_bf16_device(make_cpu_device(1)));
    benches.emplace_back(make_bf16_device(make_reference_device(1)));
    return benches;
}

TEST(Bf16Products, TakeFactorsRoundedToTheNearest) {
    constexpr double unit = 1.0 / 128;  // of the eighth bit of a number in [1, 2)
    const std::vector<std::pair<double, double>> cases{
        {0, 0},
        {1, 1},
        {1 + unit, 1 + unit},
        {1 + 0.4 * unit, 1},
        {1 + 0.6 * unit, 1 + unit},
        {1 + 0.5 * unit, 1},  // halves go to the even one
        {1 + 1.5 * unit, 1 + 2 * unit},
        {-2 + 0.01 * unit, -2},
        {3.4e38, std::numeric_limits<double>::infinity()}};
    for (Workbench& bench : bf16_benches()) {
        for (const auto& [number, expected] : cases) {
            // A product with one, in each of the two places of each of the three operations.
            const Tensor x = bench.put(Shape{1, 1}, DType::f32, {number});
            const Tensor one = bench.put(Shape{1, 1}, DType::f32, {1});
            const Tensor out = bench.poisoned(Shape{1, 1}, DType::f32);
            for (const auto& [first, second] : {std::pair{x, one}, std::pair{one, x}}) {
                bench.stream().linear(out, first, second, std::nullopt);
                EXPECT_EQ(bench.read(out)[0], expected) << number;
                bench.stream().linear_backward_input(out, first, second);
                EXPECT_EQ(bench.read(out)[0], expected) << number;
                bench.write(out, {0});
                bench.stream().linear_backward_weight(out, std::nullopt, first, second);
                EXPECT_EQ(bench.read(out)[0], expected) << number;
            }
            EXPECT_EQ(bench.read(x)[0], static_cast<float>(number)) << "the factor itself stays";
        }
        const Tensor none =
            bench.put(Shape{1, 1}, DType::f32, {std::numeric_limits<double>::quiet_NaN()});
        const Tensor out = bench.poisoned(Shape{1, 1}, DType::f32);
        bench.stream().linear(out, none, none, std::nullopt);
        EXPECT_TRUE(std::isnan(bench.read(out)[0]));
    }
}

TEST(Bf16Products, AreThoseOfTheReferenceButForTheOrderOfSums) {
    const auto products = [](Workbench& bench) {
        const Tensor x = bench.random(Shape{37, 50}, DType::f32, 1);
        const Tensor weight = bench.random(Shape{19, 50}, DType::f32, 2);
        const Tensor bias = bench.random(Shape{19}, DType::f32, 3);
        const Tensor out = bench.poisoned(Shape{37, 19}, DType::f32);
        bench.stream().linear(out, x, weight, bias);
        return bench.read(out);
    };
    std::vector<Workbench> benches = bf16_benches();
    const std::vector<double> expected = products(benches[1]);
    tests::expect_close(products(benches[0]), expected, 1e-6);
    Workbench full{make_cpu_device(1)};
    const std::vector<double> unrounded = products(full);
    double largest = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        largest = std::max(largest, std::abs(unrounded[i] - expected[i]));
    }
    EXPECT_GT(largest, 1e-3);
}

TEST(CpuDeviceAlone, ComputesDoublePrecisionAsTheReferenceDoes) {
    Workbench cpu{make_cpu_device(1)};
    Workbench judge;
    const auto product = [](Workbench& bench) {
        const Tensor x = bench.random(Shape{7, 33}, DType::f64, 1);
        const Tensor weight = bench.random(Shape{18, 33}, DType::f64, 2);
        const Tensor out = bench.poisoned(Shape{7, 18}, DType::f64);
        bench.stream().linear(out, x, weight, std::nullopt);
        return bench.bytes(out);
    };
    EXPECT_EQ(product(cpu), product(judge));
}

TEST(CpuDeviceAlone, NamesWhatDecidesItsLastBits) {
    const std::string one = make_cpu_device(1)->fingerprint();
    EXPECT_TRUE(one.starts_with("cpu, oneDNN ")) << one;
    EXPECT_NE(one, make_cpu_device(2)->fingerprint());
    EXPECT_NE(one, make_reference_device(1)->fingerprint());
}

}  // namespace
}  // namespace rhizome::device
