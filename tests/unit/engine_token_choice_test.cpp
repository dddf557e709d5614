#include "engine/token_choice.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <vector>

namespace rhizome::engine {
namespace {

constexpr double almost_one = 1.0 - 0x1p-53;

/// How often each token is chosen by evenly spread numbers.
std::vector<int> counts(const std::vector<double>& logits, const TokenRule& rule, int draws) {
    std::vector<int> result(logits.size());
    for (int i = 0; i < draws; ++i) {
        ++result[static_cast<std::size_t>(choose_token(logits, rule, (i + 0.5) / draws))];
    }
    return result;
}

TEST(TokenChoice, AtTemperatureZeroIsTheLikeliestAndOfSeveralTheLowest) {
    for (const double uniform : {0.0, 0.5, almost_one}) {
        EXPECT_EQ(choose_token(std::vector{1.0, 3.0, 2.0}, {.temperature = 0}, uniform), 1);
        EXPECT_EQ(choose_token(std::vector{1.0, 3.0, 3.0}, {.temperature = 0}, uniform), 1);
        EXPECT_EQ(choose_token(std::vector{-2.0, -2.0}, {.temperature = 0}, uniform), 0);
        EXPECT_EQ(choose_token(std::vector{5.0}, {.temperature = 0}, uniform), 0);
    }
}

TEST(TokenChoice, FollowsTheSoftmax) {
    const std::vector<double> logits{std::log(1.0), std::log(4.0), std::log(5.0)};
    EXPECT_EQ(counts(logits, {}, 1000), (std::vector{100, 400, 500}));
    // At half the temperature weights are squared: 1, 16, 25 of 42.
    EXPECT_EQ(counts(logits, {.temperature = 0.5}, 42), (std::vector{1, 16, 25}));
}

TEST(TokenChoice, TakesCandidatesInAscendingOrder) {
    const std::vector<double> equal{0.0, 0.0, 0.0, 0.0};
    EXPECT_EQ(choose_token(equal, {}, 0.0), 0);
    EXPECT_EQ(choose_token(equal, {}, 0.25 - 0x1p-40), 0);
    EXPECT_EQ(choose_token(equal, {}, 0.25), 1);
    EXPECT_EQ(choose_token(equal, {}, 0.5), 2);
    EXPECT_EQ(choose_token(equal, {}, almost_one), 3);
}

TEST(TokenChoice, DoesNotChangeWhenAllLogitsRise) {
    const std::vector<double> low{-1.0, 0.0, 2.0, 1.0};
    const std::vector<double> high{1023.0, 1024.0, 1026.0, 1025.0};
    EXPECT_EQ(counts(low, {}, 1000), counts(high, {}, 1000));
}

TEST(TokenChoice, OfTheTopOneIsTheLikeliestAtAnyTemperature) {
    const std::vector<double> logits{1.0, 3.0, 3.0, 2.0};
    for (const double temperature : {1e-300, 1.0, 1e6}) {
        EXPECT_EQ(counts(logits, {temperature, 1}, 100), (std::vector{0, 100, 0, 0}));
    }
}

TEST(TokenChoice, OfTheTopKLeavesTheOthersOutAndOfEqualOnesTheHigher) {
    const std::vector<double> logits{0.0, 1.0, 0.0, 2.0, 1.0};
    const auto three = counts(logits, {1e6, 3}, 300);
    EXPECT_EQ(three, (std::vector{0, 100, 0, 100, 100}));
    EXPECT_EQ(counts(logits, {1e6, 2}, 300), (std::vector{0, 150, 0, 150, 0}));
    EXPECT_EQ(counts(logits, {1e6, 4}, 400), (std::vector{100, 100, 0, 100, 100}));
    for (const int all : {0, 5, 6, std::numeric_limits<int>::max()}) {
        EXPECT_EQ(counts(logits, {0.7, all}, 1000), counts(logits, {0.7, 0}, 1000));
    }
}

TEST(TokenChoice, TendsToTheLikeliestAsTheTemperatureFalls) {
    const std::vector<double> logits{1.0, 1.5, 0.0};
    int before = 0;
    for (const double temperature : {1e6, 1.0, 0.3, 0.1}) {
        const int likeliest = counts(logits, {.temperature = temperature}, 10000)[1];
        EXPECT_GT(likeliest, before) << temperature;
        before = likeliest;
    }
    for (const double temperature : {1e-3, 1e-300, std::numeric_limits<double>::denorm_min()}) {
        EXPECT_EQ(counts(logits, {.temperature = temperature}, 100)[1], 100) << temperature;
    }
}

TEST(TokenChoice, TendsToAnyTokenAsTheTemperatureRises) {
    EXPECT_EQ(counts({1.0, 1.5, 0.0}, {.temperature = 1e6}, 300), (std::vector{100, 100, 100}));
}

TEST(TokenChoice, NeverTakesATokenWithoutWeight) {
    // The weights of the first and the last round to zero.
    const std::vector<double> logits{-1e5, 0.0, 0.0, -1e5};
    EXPECT_EQ(choose_token(logits, {}, 0.0), 1);
    EXPECT_EQ(choose_token(logits, {}, almost_one), 2);
    const double largest = std::numeric_limits<double>::max();
    EXPECT_EQ(choose_token(std::vector{-largest, largest}, {}, 0.0), 1);
}

TEST(TokenChoiceDeathTest, RefusesWhatIsNoNumberOfTheInterval) {
    const testing::ExitedWithCode our_fault{1};
    EXPECT_EXIT((void)choose_token(std::vector{1.0}, {}, 1.0), our_fault, "broken promise");
    EXPECT_EXIT((void)choose_token(std::vector<double>{}, {}, 0.0), our_fault, "broken promise");
}

}  // namespace
}  // namespace rhizome::engine
