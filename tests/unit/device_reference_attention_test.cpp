// Attention of the reference device against a second, plainer computation in double precision.
#include <gmock/gmock.h>

#include "support/device_case.hpp"

namespace rhizome::tests {
namespace {

using device::Dropout;
using device::Tensor;
using testing::ElementsAre;
using testing::ExitedWithCode;

using Attention = DeviceCase;
INSTANTIATE_TEST_SUITE_P(Types, Attention, testing::Values(DType::f32, DType::f64), name_of_dtype);

struct Sizes {
    std::int64_t rows;
    std::int64_t positions;
    std::int64_t heads;
    std::int64_t width;

    [[nodiscard]] std::int64_t channels() const { return heads * width; }
    [[nodiscard]] Shape qkv() const { return {rows, positions, 3 * channels()}; }
    [[nodiscard]] Shape out() const { return {rows, positions, channels()}; }
    [[nodiscard]] Shape log_sum() const { return {rows, heads, positions}; }
};

constexpr std::array sizes{Sizes{1, 1, 1, 1}, Sizes{2, 7, 3, 3}, Sizes{1, 13, 1, 17},
                           Sizes{3, 5, 2, 4}, Sizes{1, 33, 2, 5}};

Dropout dropout_at(double probability, std::int32_t microbatch = 2) {
    return {probability, RandomSite::in_step(17, LayerId{3}, 0, Step{5}, Microbatch{microbatch})};
}

/// One number of a list of shape (B, T, parts * C): what head `h` has at position `t` in `c`.
struct Place {
    const Sizes& n;
    std::int64_t parts;

    [[nodiscard]] std::size_t at(std::int64_t b, std::int64_t t, std::int64_t part, std::int64_t h,
                                 std::int64_t c) const {
        return static_cast<std::size_t>(((b * n.positions + t) * parts + part) * n.channels() +
                                        h * n.width + c);
    }
};

struct Expected {
    std::vector<double> out;
    std::vector<double> log_sum;
    std::vector<double> d_qkv;
};

/// Straight from docs/MATHEMATICS.md and the chain rule, one query at a time.
Expected plain_attention(const Sizes& n, const std::vector<double>& qkv,
                         const std::vector<double>& d_out, const std::optional<Dropout>& dropout) {
    Expected result{std::vector<double>(d_out.size()), {}, std::vector<double>(qkv.size())};
    const Place in{n, 3};
    const Place o{n, 1};
    const double scale = 1 / std::sqrt(static_cast<double>(n.width));
    const auto kept = [&](std::int64_t element) {  // 0 or 1 / (1 - p)
        if (!dropout) return 1.0;
        const auto words = dropout->site.words(static_cast<std::uint32_t>(element / 4));
        const double drawn = uniform(words[static_cast<std::size_t>(element % 4)]);
        return drawn >= dropout->probability ? 1 / (1 - dropout->probability) : 0.0;
    };
    for (std::int64_t head = 0; head < n.rows * n.heads; ++head) {
        const std::int64_t b = head / n.heads;
        const std::int64_t h = head % n.heads;
        for (std::int64_t i = 0; i < n.positions; ++i) {
            const auto keys = static_cast<std::size_t>(i + 1);
            std::vector<double> exponentials(keys);
            double sum = 0;
            for (std::int64_t j = 0; j <= i; ++j) {
                double score = 0;
                for (std::int64_t c = 0; c < n.width; ++c) {
                    score += qkv[in.at(b, i, 0, h, c)] * qkv[in.at(b, j, 1, h, c)];
                }
                sum += exponentials[static_cast<std::size_t>(j)] = std::exp(score * scale);
            }
            result.log_sum.push_back(std::log(sum));
            std::vector<double> d_p(keys);
            double d_mean = 0;
            for (std::int64_t j = 0; j <= i; ++j) {
                const double p = exponentials[static_cast<std::size_t>(j)] / sum;
                const double mask = kept((head * n.positions + i) * n.positions + j);
                for (std::int64_t c = 0; c < n.width; ++c) {
                    const double d = d_out[o.at(b, i, 0, h, c)];
                    result.out[o.at(b, i, 0, h, c)] += p * mask * qkv[in.at(b, j, 2, h, c)];
                    result.d_qkv[in.at(b, j, 2, h, c)] += p * mask * d;
                    d_p[static_cast<std::size_t>(j)] += mask * d * qkv[in.at(b, j, 2, h, c)];
                }
                d_mean += p * d_p[static_cast<std::size_t>(j)];
            }
            for (std::int64_t j = 0; j <= i; ++j) {
                const auto at = static_cast<std::size_t>(j);
                const double d_score = exponentials[at] / sum * (d_p[at] - d_mean) * scale;
                for (std::int64_t c = 0; c < n.width; ++c) {
                    result.d_qkv[in.at(b, i, 0, h, c)] += d_score * qkv[in.at(b, j, 1, h, c)];
                    result.d_qkv[in.at(b, j, 1, h, c)] += d_score * qkv[in.at(b, i, 0, h, c)];
                }
            }
        }
    }
    return result;
}

TEST_P(Attention, GivesTheNumbersThatOneComputesByHand) {
    // One channel. Position 1 sees scores 0 and ln 3, so probabilities 1/4 and 3/4 of 4 and 8.
    const Tensor qkv = put(Shape{1, 2, 3}, {5, 0, 4, 1, std::log(3.0), 8});
    const Tensor out = poisoned(Shape{1, 2, 1});
    const Tensor log_sum = poisoned(Shape{1, 1, 2});
    stream.attention(out, log_sum, qkv, std::nullopt);
    expect_close(read(out), {4, 7}, tolerance());
    expect_close(read(log_sum), {0, std::log(4.0)}, tolerance());
}

TEST_P(Attention, DividesScoresByTheRootOfTheHeadsWidth) {
    // Four channels of 1 times ln 3 each: 4 ln 3 / sqrt(4) = ln 9, so 1/10 and 9/10.
    const double k = std::log(3.0);
    const Tensor qkv = put(Shape{1, 2, 12}, {0, 0, 0, 0, 0, 0, 0, 0, 1,  2, 3, 4,  //
                                             1, 1, 1, 1, k, k, k, k, 11, 2, 3, 4});
    const Tensor out = poisoned(Shape{1, 2, 4});
    stream.attention(out, poisoned(Shape{1, 1, 2}), qkv, std::nullopt);
    expect_close(read(out), {1, 2, 3, 4, 10, 2, 3, 4}, tolerance());
}

TEST_P(Attention, AgreesWithThePlainComputationForwardAndBackwardAtEverySize) {
    for (const Sizes& n : sizes) {
        for (const double probability : {0.0, 0.4}) {
            SCOPED_TRACE(testing::Message()
                         << n.positions << " positions, dropout " << probability);
            const std::optional<Dropout> dropout =
                probability > 0 ? std::optional{dropout_at(probability)} : std::nullopt;
            const Tensor qkv = random(n.qkv(), 1);
            const Tensor d_out = random(n.out(), 2);
            const Tensor out = poisoned(n.out());
            const Tensor log_sum = poisoned(n.log_sum());
            const Tensor d_qkv = poisoned(n.qkv());
            stream.attention(out, log_sum, qkv, dropout);
            stream.attention_backward(d_qkv, d_out, out, log_sum, qkv, dropout);
            const Expected expected = plain_attention(n, read(qkv), read(d_out), dropout);
            expect_close(read(out), expected.out, tolerance());
            expect_close(read(log_sum), expected.log_sum, tolerance());
            expect_close(read(d_qkv), expected.d_qkv, 5 * tolerance());
        }
    }
}

TEST_P(Attention, DoesNotLookAhead) {
    const Sizes n{2, 7, 3, 3};
    for (const bool with_dropout : {false, true}) {
        const auto dropout = with_dropout ? std::optional{dropout_at(0.3)} : std::nullopt;
        const Tensor qkv = random(n.qkv(), 1);
        const Tensor out = poisoned(n.out());
        const Tensor log_sum = poisoned(n.log_sum());
        stream.attention(out, log_sum, qkv, dropout);
        const std::vector<double> before = read(out);
        const std::int64_t row_of_qkv = 3 * n.channels();
        for (std::int64_t changed = 0; changed < n.positions; ++changed) {
            const Tensor other = poisoned(n.qkv());
            stream.copy(other, qkv);
            for (std::int64_t b = 0; b < n.rows; ++b) {
                const std::int64_t first = (b * n.positions + changed) * row_of_qkv;
                bench.write(other.slice(first, row_of_qkv), random_numbers(row_of_qkv, 9));
            }
            stream.attention(out, log_sum, other, dropout);
            const std::vector<double> after = read(out);
            for (std::size_t i = 0; i < after.size(); ++i) {
                const auto position = static_cast<std::int64_t>(i) / n.channels() % n.positions;
                if (position < changed) {
                    EXPECT_EQ(after[i], before[i]) << changed << " shows in " << position;
                } else if (position == changed && !with_dropout) {
                    EXPECT_NE(after[i], before[i]);
                }
            }
        }
    }
}

TEST_P(Attention, StaysFiniteForScoresThatOverflowTheExponential) {
    const Tensor qkv = put(Shape{1, 2, 3}, {100, 99, 1, 100, 100, 2});
    const Tensor out = poisoned(Shape{1, 2, 1});
    const Tensor log_sum = poisoned(Shape{1, 1, 2});
    stream.attention(out, log_sum, qkv, std::nullopt);
    EXPECT_THAT(read(out), ElementsAre(1, 2));
    EXPECT_THAT(read(log_sum), ElementsAre(9900, 10000));
    const Tensor d_qkv = poisoned(Shape{1, 2, 3});
    stream.attention_backward(d_qkv, put(Shape{1, 2, 1}, {3, 4}), out, log_sum, qkv, std::nullopt);
    expect_close(read(d_qkv), {0, 0, 3, 0, 0, 4}, tolerance());
}

TEST_P(Attention, DropsTheSameProbabilitiesAgainAndOthersElsewhere) {
    const Sizes n{2, 7, 3, 3};
    const Tensor qkv = random(n.qkv(), 1);
    const auto result = [&](const Dropout& dropout) {
        const Tensor out = poisoned(n.out());
        stream.attention(out, poisoned(n.log_sum()), qkv, dropout);
        return bench.bytes(out);
    };
    EXPECT_EQ(result(dropout_at(0.5, 1)), result(dropout_at(0.5, 1)));
    EXPECT_NE(result(dropout_at(0.5, 1)), result(dropout_at(0.5, 2)));
}

TEST(AttentionDeathTest, RefusesShapesThatDoNotFit) {
    Workbench bench;
    const auto tensor = [&](const Shape& shape) { return bench.random(shape, DType::f32, 1); };
    const Tensor out = tensor(Shape{2, 3, 4});
    const Tensor qkv = tensor(Shape{2, 3, 12});
    device::Stream& stream = bench.stream();
    stream.attention(out, tensor(Shape{2, 2, 3}), qkv, std::nullopt);  // these fit
    EXPECT_EXIT(stream.attention(out, tensor(Shape{2, 3, 3}), qkv, std::nullopt), ExitedWithCode(1),
                "broken promise");  // 3 heads of 4 channels
    EXPECT_EXIT(stream.attention(out, tensor(Shape{2, 2, 4}), qkv, std::nullopt), ExitedWithCode(1),
                "broken promise");
    EXPECT_EXIT(stream.attention(out, tensor(Shape{2, 2, 3}), tensor(Shape{2, 3, 8}), std::nullopt),
                ExitedWithCode(1), "broken promise");
}

}  // namespace
}  // namespace rhizome::tests
