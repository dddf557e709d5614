// Numbers about tensors' values, by hand.
#include "cli/state_values.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace rhizome::cli {
namespace {

using ::testing::ElementsAre;

constexpr double infinity = std::numeric_limits<double>::infinity();
const double nan = std::nan("");

template <class T>
std::span<const std::byte> bytes(const std::vector<T>& values) {
    return std::as_bytes(std::span{values});
}

TEST(Statistics, AreThoseOfAllElementsAdded) {
    Statistics numbers;
    numbers.add(bytes<float>({1, -4}), DType::f32);
    numbers.add(bytes<float>({2, 5}), DType::f32);
    EXPECT_EQ(numbers.elements(), 4);
    EXPECT_EQ(numbers.non_finite(), 0);
    EXPECT_EQ(numbers.least(), -4);
    EXPECT_EQ(numbers.largest(), 5);
    EXPECT_EQ(numbers.mean(), 1);
    EXPECT_EQ(numbers.rms(), std::sqrt(11.5));
}

TEST(Statistics, LeaveOutWhatIsNotFinite) {
    Statistics numbers;
    numbers.add(bytes<double>({nan, 3, infinity, -infinity}), DType::f64);
    EXPECT_EQ(numbers.elements(), 4);
    EXPECT_EQ(numbers.non_finite(), 3);
    EXPECT_EQ(numbers.least(), 3);
    EXPECT_EQ(numbers.largest(), 3);
    EXPECT_EQ(numbers.mean(), 3);
    EXPECT_EQ(numbers.rms(), 3);
}

TEST(Statistics, AreNoneOfNothingFinite) {
    Statistics numbers;
    EXPECT_EQ(numbers.mean(), std::nullopt);
    numbers.add(bytes<double>({nan}), DType::f64);
    EXPECT_EQ(numbers.least(), std::nullopt);
    EXPECT_EQ(numbers.largest(), std::nullopt);
    EXPECT_EQ(numbers.mean(), std::nullopt);
    EXPECT_EQ(numbers.rms(), std::nullopt);
}

TEST(FirstValues, AreAsManyAsThereAre) {
    EXPECT_THAT(first_values(bytes<float>({1, 2.5, 3}), DType::f32, 2), ElementsAre(1, 2.5));
    EXPECT_THAT(first_values(bytes<double>({1, 2}), DType::f64, 8), ElementsAre(1, 2));
    EXPECT_THAT(first_values({}, DType::f32, 8), ElementsAre());
}

TEST(Difference, IsNoneBetweenEqualBits) {
    Difference difference;
    difference.add(bytes<double>({1, nan, -0.0}), bytes<double>({1, nan, -0.0}), DType::f64, 0);
    EXPECT_EQ(difference.differing(), 0);
    EXPECT_EQ(difference.first(), std::nullopt);
    EXPECT_EQ(difference.largest_at(), std::nullopt);
}

TEST(Difference, KnowsHowManyHowMuchAndWhere) {
    Difference difference;
    difference.add(bytes<float>({1, 2, 3}), bytes<float>({1, 2, 3}), DType::f32, 0);
    difference.add(bytes<float>({4, 5, -6}), bytes<float>({4, 5.5, -8}), DType::f32, 3);
    difference.add(bytes<float>({0.25}), bytes<float>({0.5}), DType::f32, 6);
    EXPECT_EQ(difference.differing(), 3);
    EXPECT_EQ(difference.first(), 4);
    EXPECT_EQ(difference.largest_absolute(), 2);
    EXPECT_EQ(difference.largest_at(), 5);
    EXPECT_EQ(difference.largest_relative(), 0.5);
}

TEST(Difference, SeesBitsWhereNumbersAreEqual) {
    Difference difference;
    difference.add(bytes<double>({0.0}), bytes<double>({-0.0}), DType::f64, 0);
    EXPECT_EQ(difference.differing(), 1);
    EXPECT_EQ(difference.largest_absolute(), 0);
    EXPECT_EQ(difference.largest_relative(), 0);
    EXPECT_EQ(difference.largest_at(), 0);
    Difference within{0.0};
    within.add(bytes<double>({0.0}), bytes<double>({-0.0}), DType::f64, 0);
    EXPECT_EQ(within.differing(), 0);
}

TEST(Difference, IsCountedBeyondTheToleranceOnly) {
    Difference difference{0.5};
    difference.add(bytes<double>({1, 2, 3}), bytes<double>({1.5, 2.75, 3.25}), DType::f64, 0);
    EXPECT_EQ(difference.differing(), 1);
    EXPECT_EQ(difference.first(), 1);
    EXPECT_EQ(difference.largest_absolute(), 0.75);
    EXPECT_EQ(difference.largest_relative(), 0.75 / 2.75);
}

TEST(Difference, OfWhatIsNoNumberIsInfinite) {
    for (const double other : {1.0, infinity}) {
        Difference difference{1e300};
        difference.add(bytes<double>({nan}), bytes<double>({other}), DType::f64, 7);
        EXPECT_EQ(difference.differing(), 1);
        EXPECT_EQ(difference.first(), 7);
        EXPECT_EQ(difference.largest_absolute(), infinity);
        EXPECT_EQ(difference.largest_relative(), infinity);
    }
    Difference opposite{1e300};
    opposite.add(bytes<double>({infinity}), bytes<double>({-infinity}), DType::f64, 0);
    EXPECT_EQ(opposite.differing(), 1);
}

TEST(Difference, IsNoneBetweenTwoNansWithinATolerance) {
    Difference exact;
    exact.add(bytes<double>({nan}), bytes<double>({-nan}), DType::f64, 0);
    EXPECT_EQ(exact.differing(), 1);
    Difference within{0.0};
    within.add(bytes<double>({nan}), bytes<double>({-nan}), DType::f64, 0);
    EXPECT_EQ(within.differing(), 0);
}

TEST(PlaceText, CountsRowByRow) {
    EXPECT_EQ(place_text(Shape{7}, 3), "[3]");
    EXPECT_EQ(place_text(Shape{3, 4}, 0), "[0, 0]");
    EXPECT_EQ(place_text(Shape{3, 4}, 11), "[2, 3]");
    EXPECT_EQ(place_text(Shape{2, 3, 2, 4}, 24 + 8 + 4 + 1), "[1, 1, 1, 1]");
}

}  // namespace
}  // namespace rhizome::cli
