// Operations of the reference device that work element by element, and the embedding.
#include <gmock/gmock.h>

#include <numbers>

#include "support/device_case.hpp"

namespace rhizome::tests {
namespace {

using device::Dropout;
using device::Tensor;
using testing::Each;
using testing::ElementsAre;
using testing::ExitedWithCode;

constexpr std::array sizes{1, 7, 13, 33, 65};

using Elements = DeviceCase;
INSTANTIATE_TEST_SUITE_P(Types, Elements, testing::Values(DType::f32, DType::f64), name_of_dtype);

TEST_P(Elements, AddGivesTheSumAlsoInPlaceOfAnInput) {
    const Tensor a = put(Shape{3}, {1, -2, 0.5});
    const Tensor b = put(Shape{3}, {10, 20, 30});
    const Tensor out = poisoned(Shape{3});
    stream.add(out, a, b);
    EXPECT_THAT(read(out), ElementsAre(11, 18, 30.5));
    stream.add(a, a, b);
    EXPECT_THAT(read(a), ElementsAre(11, 18, 30.5));
    stream.add(b, a, b);
    EXPECT_THAT(read(b), ElementsAre(21, 38, 60.5));
    stream.add(b, b, b);
    EXPECT_THAT(read(b), ElementsAre(42, 76, 121));
}

TEST_P(Elements, AddRoundsInTheTensorsType) {
    const double tiny = dtype() == DType::f64 ? 0x1p-52 : 0x1p-23;
    const Tensor out = poisoned(Shape{2});
    stream.add(out, put(Shape{2}, {1, 1}), put(Shape{2}, {tiny, tiny / 4}));
    EXPECT_THAT(read(out), ElementsAre(1 + tiny, 1));
}

// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) by a calculator.
TEST_P(Elements, GeluGivesTheNumbersOfTheTanhForm) {
    const Tensor x = put(Shape{5}, {0, 1, -1, 2, -3});
    const Tensor out = poisoned(Shape{5});
    stream.gelu(out, x);
    expect_close(
        read(out),
        {0, 0.8411919906082768, -0.15880800939172324, 1.954597694087775, -0.003637392081773018},
        tolerance());
    stream.gelu(x, x);
    EXPECT_EQ(bench.bytes(x), bench.bytes(out)) << "in place";
}

TEST_P(Elements, GeluIsTheIdentityFarAboveAndZeroFarBelow) {
    const Tensor out = poisoned(Shape{4});
    stream.gelu(out, put(Shape{4}, {50, -50, 1e4, -1e4}));
    EXPECT_THAT(read(out), ElementsAre(50, 0, 1e4, 0));
    stream.gelu_backward(out, put(Shape{4}, {3, 3, 3, 3}), put(Shape{4}, {50, -50, 1e4, -1e4}));
    EXPECT_THAT(read(out), ElementsAre(3, 0, 3, 0));
}

TEST_P(Elements, GeluAndItsBackwardFollowTheFormulaAtEverySize) {
    for (const std::int64_t size : sizes) {
        const Tensor x = random(Shape{size}, 1);
        bench.stream().add(x, x, random(Shape{size}, 2));
        const Tensor d_out = random(Shape{size}, 3);
        const Tensor out = poisoned(Shape{size});
        const Tensor d_x = poisoned(Shape{size});
        stream.gelu(out, x);
        stream.gelu_backward(d_x, d_out, x);
        const std::vector<double> values = read(x);
        const std::vector<double> gradient = read(d_out);
        std::vector<double> expected;
        std::vector<double> d_expected;
        for (std::size_t i = 0; i < values.size(); ++i) {
            const double v = values[i];
            const double outer = std::sqrt(2 / std::numbers::pi);
            const double t = std::tanh(outer * (v + 0.044715 * v * v * v));
            expected.push_back(v / 2 * (1 + t));
            d_expected.push_back(gradient[i] * ((1 + t) / 2 + v / 2 * (1 - t * t) * outer *
                                                                  (1 + 3 * 0.044715 * v * v)));
        }
        expect_close(read(out), expected, tolerance());
        expect_close(read(d_x), d_expected, tolerance());
        stream.gelu_backward(d_out, d_out, x);
        EXPECT_EQ(bench.bytes(d_out), bench.bytes(d_x)) << "in place of the output's gradient";
    }
}

Dropout dropout_at(double probability, std::int32_t site = 1, std::int32_t step = 5,
                   std::int32_t microbatch = 2) {
    return {probability,
            RandomSite::in_step(17, LayerId{3}, site, Step{step}, Microbatch{microbatch})};
}

TEST_P(Elements, DropoutKeepsWhatThePageSaysAndScalesIt) {
    for (const std::int64_t size : sizes) {
        const Tensor x = random(Shape{size}, 4);
        const Tensor out = poisoned(Shape{size});
        const Dropout dropout = dropout_at(0.3);
        stream.dropout(out, x, dropout);
        for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i) {
            const auto words = dropout.site.words(static_cast<std::uint32_t>(i / 4));
            const bool kept = uniform(words[i % 4]) >= 0.3;
            const double scaled = dtype() == DType::f64 ? read(x)[i] * (1 / 0.7)
                                                        : static_cast<float>(read(x)[i]) *
                                                              static_cast<float>(1 / 0.7);
            EXPECT_EQ(read(out)[i], kept ? scaled : 0.0) << "element " << i << " of " << size;
        }
        stream.dropout(x, x, dropout);
        EXPECT_EQ(bench.bytes(x), bench.bytes(out)) << "in place";
    }
}

TEST_P(Elements, DropoutKeepsItsShareAndKeepsTheMean) {
    constexpr std::int64_t count = 40001;
    for (const double probability : {0.1, 0.5, 0.9}) {
        const Tensor ones = put(Shape{count}, std::vector<double>(count, 1.0));
        stream.dropout(ones, ones, dropout_at(probability));
        double kept = 0;
        double sum = 0;
        for (const double value : read(ones)) {
            kept += value != 0 ? 1 : 0;
            sum += value;
        }
        const double error = std::sqrt(probability * (1 - probability) * count);
        EXPECT_NEAR(kept, count * (1 - probability), 5 * error);
        EXPECT_NEAR(sum, count, 5 * error / (1 - probability));
    }
}

TEST_P(Elements, DropoutDrawsTheSameMaskAgainAndAnotherOneElsewhere) {
    const Tensor ones = put(Shape{65}, std::vector<double>(65, 1.0));
    const auto mask = [&](const Dropout& dropout) {
        const Tensor out = poisoned(Shape{65});
        stream.dropout(out, ones, dropout);
        return read(out);
    };
    const auto here = mask(dropout_at(0.5, 1, 5, 2));
    EXPECT_EQ(mask(dropout_at(0.5, 1, 5, 2)), here);
    EXPECT_NE(mask(dropout_at(0.5, 2, 5, 2)), here) << "site";
    EXPECT_NE(mask(dropout_at(0.5, 1, 6, 2)), here) << "step";
    EXPECT_NE(mask(dropout_at(0.5, 1, 5, 3)), here) << "microbatch";
}

TEST(Dropout, DrawsTheSameMaskInBothPrecisions) {
    Workbench bench;
    std::vector<std::vector<bool>> masks;
    for (const DType dtype : {DType::f32, DType::f64}) {
        const Tensor x = bench.put(Shape{1000}, dtype, std::vector<double>(1000, 1.0));
        bench.stream().dropout(x, x, dropout_at(0.1));
        std::vector<bool>& mask = masks.emplace_back();
        for (const double value : bench.read(x)) mask.push_back(value != 0);
    }
    EXPECT_EQ(masks[0], masks[1]);
}

TEST_P(Elements, DropoutOfProbabilityZeroChangesNothing) {
    const Tensor x = random(Shape{33}, 5);
    const Tensor out = poisoned(Shape{33});
    stream.dropout(out, x, dropout_at(0.0));
    EXPECT_EQ(bench.bytes(out), bench.bytes(x));
}

TEST_P(Elements, EmbedAddsTheTokensRowAndThePositionsRow) {
    const Tensor tokens = integers(Shape{2, 3}, {2, 0, 2, 1, 1, 0});
    const Tensor token = put(Shape{3, 2}, {1, 2, 3, 4, 5, 6});
    const Tensor position = put(Shape{3, 2}, {10, 20, 30, 40, 50, 60});
    const Tensor out = poisoned(Shape{2, 3, 2});
    stream.embed(out, tokens, token, position);
    EXPECT_THAT(read(out), ElementsAre(15, 26, 31, 42, 55, 66, 13, 24, 33, 44, 51, 62));
}

TEST_P(Elements, EmbedBackwardAddsEachRowWhereItCameFrom) {
    const Tensor tokens = integers(Shape{2, 3}, {2, 0, 2, 1, 1, 0});
    const Tensor d_token = put(Shape{4, 2}, {100, 100, 200, 200, 300, 300, 7, 7});
    const Tensor d_position = put(Shape{3, 2}, {0.5, 0.5, 0.5, 0.5, 0.5, 0.5});
    const Tensor d_out = put(Shape{2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
    stream.embed_backward(d_token, d_position, d_out, tokens);
    EXPECT_THAT(read(d_token), ElementsAre(100 + 3 + 11, 100 + 4 + 12, 200 + 7 + 9, 200 + 8 + 10,
                                           300 + 1 + 5, 300 + 2 + 6, 7, 7));
    EXPECT_THAT(read(d_position), ElementsAre(8.5, 10.5, 12.5, 14.5, 16.5, 18.5));
}

TEST_P(Elements, EmbedBackwardAddsInTheOrderOfRows) {
    // One token everywhere, so each of its columns is one chain of additions.
    const Tensor tokens = integers(Shape{13, 1}, std::vector<double>(13, 0.0));
    const Tensor d_token = random(Shape{1, 7}, 6);
    const Tensor d_position = poisoned(Shape{1, 7});
    const Tensor d_out = random(Shape{13, 1, 7}, 7);
    const Tensor chain = poisoned(Shape{1, 7});
    stream.copy(chain, d_token);
    for (std::int64_t row = 0; row < 13; ++row) {
        stream.add(chain.slice(0, 7), chain.slice(0, 7), d_out.slice(7 * row, 7));
    }
    stream.embed_backward(d_token, d_position, d_out, tokens);
    EXPECT_EQ(bench.bytes(d_token), bench.bytes(chain));
}

TEST(EmbedDeathTest, RefusesTokensOutsideTheVocabulary) {
    Workbench bench;
    const Tensor token = bench.put(Shape{3, 2}, DType::f32, {1, 2, 3, 4, 5, 6});
    const Tensor position = bench.put(Shape{1, 2}, DType::f32, {1, 2});
    const Tensor out = bench.poisoned(Shape{1, 1, 2}, DType::f32);
    for (const double outside : {-1.0, 3.0}) {
        const Tensor tokens = bench.put(Shape{1, 1}, DType::i32, {outside});
        EXPECT_EXIT(bench.stream().embed(out, tokens, token, position), ExitedWithCode(1),
                    "broken promise");
    }
}

}  // namespace
}  // namespace rhizome::tests
