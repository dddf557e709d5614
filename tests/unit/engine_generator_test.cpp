// The generator against the judge's forward pass, which knows nothing of shorter networks: what it
// says about a token is found in the loss of the whole network, with that token as the target.
#include "engine/generator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "oracle/microbatch_slot.hpp"
#include "support/numbers.hpp"
#include "support/small_gpt.hpp"

namespace rhizome::tests {
namespace {

using engine::Generator;
using engine::Sampling;
using Tokens = std::vector<std::int32_t>;

constexpr Sampling greedy{.rule = {.temperature = 0}};

model::GptConfig lively_gpt(std::int32_t context = 11) {
    return {.blocks = 2,
            .channels = 8,
            .heads = 2,
            .context = context,
            .vocabulary = 13,
            .tying = model::Tying::untied,
            .dropout = 0.5};  // which must have no effect
}

/// Matrices large enough for every position to matter; norms that leave them so.
engine::ReadTensor lively_weights(DType dtype) {
    return [dtype](std::int32_t place, std::span<std::byte> to) {
        const auto elements = static_cast<std::int64_t>(to.size()) / bytes_of(dtype);
        auto numbers = random_numbers(elements, static_cast<std::uint64_t>(place));
        static const LayerTable table = model::make_gpt(lively_gpt(), 1, DType::f64, 50).table();
        const TensorRef tensor = table.owned()[static_cast<std::size_t>(place)];
        if (table.at(tensor).spec.shape.dimensions() == 1) {
            const bool is_of_norm = table.at(tensor).spec.name.ends_with("weight");
            for (double& number : numbers) number = (is_of_norm ? 1.0 : 0.0) + 0.1 * number;
        }
        if (dtype == DType::f64) {
            std::memcpy(to.data(), numbers.data(), to.size());
        } else {
            const std::vector<float> narrow(numbers.begin(), numbers.end());
            std::memcpy(to.data(), narrow.data(), to.size());
        }
    };
}

void fill(device::Stream& stream, const model::Network& network, const model::TensorSet& parameters,
          DType dtype) {
    std::int32_t place = 0;
    for (const TensorRef owned : network.table().owned()) {
        std::vector<std::byte> values(static_cast<std::size_t>(parameters.at(owned).bytes()));
        lively_weights(dtype)(place++, values);
        stream.upload(parameters.at(owned), values);
        stream.synchronize();
    }
}

struct Given {
    explicit Given(const model::GptConfig& config = lively_gpt(), DType dtype = DType::f64)
        : device{device::make_reference_device(2)},
          generator{*device, config, dtype, lively_weights(dtype)} {}

    std::unique_ptr<device::Device> device;
    Generator generator;
};

/// `count` tokens that follow these.
Tokens generated(Generator& generator, Tokens text, int count, const Sampling& sampling) {
    const auto before = static_cast<std::ptrdiff_t>(text.size());
    for (int i = 0; i < count; ++i) text.push_back(generator.next(text, sampling));
    return {text.begin() + before, text.end()};
}

Tokens some_text(std::size_t size) {
    Tokens text(size);
    for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<std::int32_t>(i * i * 5 + i) % 13;
    return text;
}

class OneSample final : public data::Dataset {
  public:
    OneSample(Tokens tokens, Tokens targets)
        : content_{std::move(tokens), std::move(targets)},
          fields_{{"tokens", shape(), DType::i32}, {"targets", shape(), DType::i32}} {}

    std::int64_t samples() const override { return 1; }
    std::span<const TensorSpec> fields() const override { return fields_; }
    void read(std::int64_t /*sample*/, std::size_t field, std::span<std::byte> row) const override {
        std::memcpy(row.data(), content_[field].data(), row.size());
    }
    std::int64_t loss_terms(std::int64_t /*sample*/) const override { return shape().elements(); }

  private:
    Shape shape() const { return {static_cast<std::int64_t>(content_[0].size())}; }
    std::vector<Tokens> content_;
    std::vector<TensorSpec> fields_;
};

/// Runs the whole network on a text that fits into its context.
class Judge {
  public:
    explicit Judge(const model::GptConfig& config)
        : config_{config},
          device_{device::make_reference_device(1)},
          stream_{device_->make_stream()},
          network_{model::make_gpt(config, 1, DType::f64, 50)},
          parameters_{*device_, network_.table(), model::TiedTensors::shared},
          slot_{*device_, network_, sample(Tokens{}, 0).fields(), 1, engine::Recompute::none} {
        fill(*stream_, network_, parameters_, DType::f64);
    }

    /// Logits behind a text, less that of token 0: the difference of two losses.
    std::vector<double> logits(const Tokens& text) {
        std::vector<double> result;
        for (std::int32_t token = 0; token < config_.vocabulary; ++token) {
            result.push_back(loss(text, 0) - loss(text, token));
        }
        return result;
    }

  private:
    /// The text, padded with a token that occurs nowhere else, and `target` behind its last token.
    OneSample sample(Tokens text, std::int32_t target) const {
        const std::size_t size = text.size();
        text.resize(static_cast<std::size_t>(config_.context), 12);
        Tokens targets(text.size(), 0);
        if (size > 0) targets[size - 1] = target;
        return {std::move(text), std::move(targets)};
    }
    double loss(const Tokens& text, std::int32_t target) {
        const OneSample data = sample(text, target);
        const std::vector<std::int64_t> first{0};
        slot_.load(*stream_, data, first);
        const model::Pass pass{model::Pass::Mode::evaluate, 0, Step{0}, Microbatch{0}, 1.0};
        for (std::int32_t layer = 0; layer < network_.size(); ++layer) {
            slot_.forward(*stream_, pass, LayerId{layer}, parameters_);
        }
        return slot_.loss(*stream_);
    }

    model::GptConfig config_;
    std::unique_ptr<device::Device> device_;
    std::unique_ptr<device::Stream> stream_;
    model::Network network_;
    model::TensorSet parameters_;
    oracle::MicrobatchSlot slot_;
};

class Tyings : public testing::TestWithParam<model::Tying> {};

TEST_P(Tyings, LogitsAreThoseOfTheWholeNetwork) {
    model::GptConfig config = lively_gpt();
    config.tying = GetParam();
    Given given{config};
    Judge judge{config};
    for (std::size_t size = 1; size <= 11; ++size) {
        SCOPED_TRACE(size);
        const Tokens text = some_text(size);
        std::vector<double> logits = given.generator.logits(text);
        const double first = logits.front();
        for (double& logit : logits) logit -= first;
        expect_close(logits, judge.logits(text), 1e-12);
    }
}

TEST_P(Tyings, GreedyTextIsTheJudgesLikeliestTokenByToken) {
    model::GptConfig config = lively_gpt();
    config.tying = GetParam();
    Given given{config};
    Judge judge{config};
    std::set<std::int32_t> seen;
    for (std::int32_t first = 0; first < 13; ++first) {
        Tokens text{first, 5};
        for (const std::int32_t token : generated(given.generator, text, 9, greedy)) {
            const auto logits = judge.logits(text);
            const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
            EXPECT_EQ(token, best) << text.size();
            text.push_back(token);
            seen.insert(token);
        }
    }
    EXPECT_GT(seen.size(), 2U) << "says always the same";
}

INSTANTIATE_TEST_SUITE_P(Heads, Tyings, testing::Values(model::Tying::tied, model::Tying::untied));

TEST(GptForward, GivesTheSameBitsAtEveryLengthThatHasRoom) {
    for (const DType dtype : {DType::f32, DType::f64}) {
        // Longer than a block of attention's queries.
        const model::GptConfig config = lively_gpt(150);
        const auto device = device::make_reference_device(2);
        const auto stream = device->make_stream();
        const model::Network network = model::make_gpt(config, 1, dtype, 50);
        const model::TensorSet parameters{*device, network.table(), model::TiedTensors::shared};
        fill(*stream, network, parameters, dtype);
        for (const std::int32_t size : {1, 2, 5, 17, 64, 65, 100}) {
            const Tokens text = some_text(static_cast<std::size_t>(size));
            const engine::GptForward exact{*device, config, dtype, size};
            const auto expected = exact.logits(*stream, parameters, text);
            for (const std::int32_t length : {size + 1, 128, 150}) {
                const engine::GptForward longer{*device, config, dtype, length};
                EXPECT_EQ(longer.logits(*stream, parameters, text), expected)
                    << size << " of " << length;
            }
        }
    }
}

TEST(Generator, SeesTheLastTokensOfATextThatIsLongerThanTheContext) {
    for (const std::int32_t context : {1, 4, 11}) {
        Given given{lively_gpt(context)};
        const Tokens text = some_text(23);
        const Tokens last{text.end() - context, text.end()};
        const auto logits = given.generator.logits(text);
        EXPECT_EQ(logits, given.generator.logits(last));
        Tokens other = text;
        other[static_cast<std::size_t>(22 - context)] ^= 1;  // just outside
        EXPECT_EQ(given.generator.logits(other), logits);
        other[static_cast<std::size_t>(23 - context)] ^= 1;  // just inside
        EXPECT_NE(given.generator.logits(other), logits);
    }
}

TEST(Generator, LooksAtNothingElseThanTheText) {
    Given given;
    const Tokens text = some_text(6);
    const auto logits = given.generator.logits(text);
    for (const std::size_t size : {11, 7, 2, 30}) {
        (void)given.generator.logits(some_text(size));
        EXPECT_EQ(given.generator.logits(text), logits) << size;
    }
}

TEST(Generator, RepeatsATextOfTheSameSeedAndOfNoOther) {
    const auto text_of = [](std::uint64_t seed) {
        Given given;
        return generated(given.generator, {3, 1}, 40, {.rule = {}, .seed = seed});
    };
    const Tokens text = text_of(7);
    EXPECT_EQ(text_of(7), text);
    EXPECT_NE(text_of(8), text);
    EXPECT_NE(text_of(7 + (1ULL << 32)), text);
}

TEST(Generator, GoesOnWithItsOwnTextAsIfItHadNotStopped) {
    Given given;
    const Sampling sampling{.rule = {.temperature = 0.8, .top_k = 6}, .seed = 5};
    const Tokens whole = generated(given.generator, {3, 1}, 30, sampling);
    Tokens begun{3, 1};
    begun.insert(begun.end(), whole.begin(), whole.begin() + 13);
    EXPECT_EQ(generated(given.generator, begun, 17, sampling),
              Tokens(whole.begin() + 13, whole.end()));
}

TEST(Generator, OfTheTopOneIsGreedyWhateverTheSeed) {
    Given given;
    const Tokens likeliest = generated(given.generator, {3}, 30, greedy);
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
        const Sampling one{.rule = {.temperature = 100, .top_k = 1}, .seed = seed};
        EXPECT_EQ(generated(given.generator, {3}, 30, one), likeliest);
        const Sampling cold{.rule = {.temperature = 1e-9}, .seed = seed};
        EXPECT_EQ(generated(given.generator, {3}, 30, cold), likeliest);
        const Sampling hot{.rule = {.temperature = 100}, .seed = seed};
        EXPECT_NE(generated(given.generator, {3}, 30, hot), likeliest);
    }
}

TEST(Generator, ChoosesTokensAsOftenAsTheSoftmaxSays) {
    Given given;
    const Tokens text{3, 1};
    const auto logits = given.generator.logits(text);
    std::vector<double> shares;
    for (const double logit : logits) shares.push_back(std::exp(logit));
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    std::vector<int> chosen(logits.size());
    constexpr int draws = 4000;
    for (int seed = 0; seed < draws; ++seed) {
        const auto token =
            given.generator.next(text, {.rule = {}, .seed = static_cast<std::uint64_t>(seed)});
        ++chosen[static_cast<std::size_t>(token)];
    }
    for (std::size_t token = 0; token < logits.size(); ++token) {
        const double share = shares[token] / sum;
        const double error = std::sqrt(draws * share * (1 - share));
        EXPECT_NEAR(chosen[token], draws * share, 5 * error + 1) << token;
    }
}

TEST(Generator, ChoosesOnlyTokensBelowALimit) {
    Given given;
    const Sampling free{.rule = {.temperature = 100}, .seed = 1};
    const Sampling bound{.rule = {.temperature = 100}, .seed = 1, .tokens_below = 4};
    const Sampling vast{.rule = {.temperature = 100}, .seed = 1, .tokens_below = 256};
    const Tokens text = generated(given.generator, {3}, 50, free);
    const Tokens low = generated(given.generator, {3}, 50, bound);
    EXPECT_GE(*std::max_element(text.begin(), text.end()), 4);
    EXPECT_EQ(*std::max_element(low.begin(), low.end()), 3);
    EXPECT_EQ(generated(given.generator, {3}, 50, vast), text);
}

TEST(Generator, ReadsEachOwnedTensorOnceAndInOrder) {
    const auto device = device::make_reference_device(1);
    model::GptConfig config = lively_gpt();
    config.tying = model::Tying::tied;
    std::vector<std::size_t> sizes;
    const Generator generator{*device, config, DType::f32, [&](std::int32_t place, auto to) {
                                  EXPECT_EQ(static_cast<std::size_t>(place), sizes.size());
                                  sizes.push_back(to.size());
                                  std::fill(to.begin(), to.end(), std::byte{0});
                              }};
    std::vector<std::size_t> expected;
    const model::Network network = model::make_gpt(config, 1, DType::f32, 50);
    for (const TensorRef owned : network.table().owned()) {
        expected.push_back(static_cast<std::size_t>(network.table().at(owned).spec.bytes()));
    }
    EXPECT_EQ(sizes, expected);
}

TEST(Generator, RefusesWeightsThatGiveNoNumbers) {
    const auto device = device::make_reference_device(1);
    Generator generator{*device, lively_gpt(), DType::f64, [](std::int32_t /*place*/, auto to) {
                            const double nan = std::numeric_limits<double>::quiet_NaN();
                            for (std::size_t i = 0; i < to.size(); i += sizeof nan) {
                                std::memcpy(&to[i], &nan, sizeof nan);
                            }
                        }};
    EXPECT_THROW((void)generator.next(Tokens{1}, greedy), DataError);
}

TEST(Generator, TakesTheMemoryThatItPlans) {
    class Counting final : public device::Device {
      public:
        explicit Counting(device::Device& inner) : inner_{inner} {}
        device::Memory allocate(std::int64_t size) override {
            bytes_ += size;
            return inner_.allocate(size);
        }
        std::unique_ptr<device::Stream> make_stream() override { return inner_.make_stream(); }
        std::string fingerprint() const override { return inner_.fingerprint(); }
        std::int64_t bytes() const { return bytes_; }

      private:
        device::Device& inner_;
        std::int64_t bytes_ = 0;
    };
    const auto inner = device::make_reference_device(1);
    for (const std::size_t size : {1, 3, 11, 40}) {
        Counting device{*inner};
        const model::GptConfig config = lively_gpt();
        Generator generator{device, config, DType::f32, lively_weights(DType::f32)};
        (void)generator.logits(some_text(size));
        EXPECT_EQ(device.bytes(),
                  Generator::planned_bytes(config, DType::f32, static_cast<std::int64_t>(size)));
    }
    EXPECT_LT(Generator::planned_bytes(lively_gpt(1024), DType::f32, 10),
              Generator::planned_bytes(lively_gpt(1024), DType::f32, 1000) / 4);
}

}  // namespace
}  // namespace rhizome::tests
