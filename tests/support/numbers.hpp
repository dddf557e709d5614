// Numbers for tests: the same on every call, and compared by the largest of their list.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/random.hpp"

namespace rhizome::tests {

/// In [-1, 1). Different seeds give unrelated lists.
inline std::vector<double> random_numbers(std::int64_t count, std::uint64_t seed) {
    const RandomSite site = RandomSite::initial(seed, LayerId{0}, 0);
    std::vector<double> numbers;
    for (std::int64_t i = 0; i < count; ++i) {
        const auto words = site.words(static_cast<std::uint32_t>(i / 4));
        numbers.push_back(2.0 * uniform(words[static_cast<std::size_t>(i % 4)]) - 1.0);
    }
    return numbers;
}

inline double largest_of(const std::vector<double>& numbers) {
    double largest = 0;
    for (const double number : numbers) largest = std::max(largest, std::abs(number));
    return largest;
}

/// Single elements may cancel to nothing, so their own size is no measure; the list's is.
inline void expect_close(const std::vector<double>& actual, const std::vector<double>& expected,
                         double tolerance) {
    ASSERT_EQ(actual.size(), expected.size());
    const double bound = tolerance * largest_of(expected);
    for (std::size_t i = 0; i < actual.size(); ++i) {
        EXPECT_NEAR(actual[i], expected[i], bound) << "element " << i;
    }
}

}  // namespace rhizome::tests
