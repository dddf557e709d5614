#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "data/sampler.hpp"

namespace rhizome::data {
namespace {

using ::testing::ElementsAre;

constexpr std::array<std::uint64_t, 6> seeds{
    0, 1, 42, 0xFFFFFFFF, 0x0123456789ABCDEF, std::numeric_limits<std::uint64_t>::max()};

std::vector<std::int64_t> pass_of(std::uint64_t seed, std::uint32_t pass, std::int64_t samples) {
    std::vector<std::int64_t> order;
    for (std::int64_t place = 0; place < samples; ++place) {
        order.push_back(permuted(seed, pass, samples, place));
    }
    return order;
}

std::vector<std::int64_t> sorted(std::vector<std::int64_t> values) {
    std::sort(values.begin(), values.end());
    return values;
}

std::vector<std::int64_t> each_once(std::int64_t samples) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(samples));
    std::iota(values.begin(), values.end(), std::int64_t{0});
    return values;
}

/// What a run trains, in the order of its running numbers.
std::vector<std::int64_t> first_rows(const Sampler& sampler, std::int32_t microbatches,
                                     std::int32_t rows, std::size_t count) {
    std::vector<std::int64_t> trained;
    for (std::int32_t step = 0; trained.size() < count; ++step) {
        for (std::int32_t microbatch = 0; microbatch < microbatches; ++microbatch) {
            for (std::int32_t row = 0; row < rows; ++row) {
                trained.push_back(sampler.sample(Step{step}, Microbatch{microbatch}, row));
            }
        }
    }
    trained.resize(count);
    return trained;
}

// Worked out by another program from docs/MATHEMATICS.md.
TEST(Permuted, GivesTheValuesOfThePage) {
    EXPECT_THAT(pass_of(7, 2, 13), ElementsAre(5, 12, 7, 0, 8, 3, 4, 10, 1, 6, 2, 11, 9));
    constexpr std::uint64_t seed = 0x0123456789ABCDEF;
    constexpr std::int64_t large = std::int64_t{1} << 40;
    EXPECT_EQ(permuted(seed, 3, large, 0), 503381488938);
    EXPECT_EQ(permuted(seed, 3, large, 12345), 931184412550);
    EXPECT_EQ(permuted(seed, 3, large, large - 1), 113656637450);
}

TEST(Permuted, WorksUpToTheLargestCount) {
    constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
    constexpr std::uint64_t seed = 0x0123456789ABCDEF;
    EXPECT_EQ(permuted(seed, 0, largest, 0), 2262634586798892533);
    EXPECT_EQ(permuted(seed, 0, largest, largest - 1), 2935276710169610034);
    constexpr std::int64_t walks = (std::int64_t{1} << 62) + 1;  // the most cycle walking
    EXPECT_EQ(permuted(seed, 0xFFFFFFFF, walks, 0), 2711742474230993528);
    EXPECT_EQ(permuted(seed, 0xFFFFFFFF, walks, walks - 1), 3552420618209998608);
}

TEST(Permuted, HasEachSampleOnceInEveryPass) {
    std::vector<std::int64_t> sizes = each_once(71);
    sizes.erase(sizes.begin());  // 1 to 70
    sizes.insert(sizes.end(), {255, 256, 257, 1000, 1023, 1024, 1025, 4099});
    for (const std::int64_t samples : sizes) {
        const std::vector<std::int64_t> expected = each_once(samples);
        for (const std::uint64_t seed : seeds) {
            for (const std::uint32_t pass : {0U, 1U, 2U, 0xFFFFFFFFU}) {
                ASSERT_EQ(sorted(pass_of(seed, pass, samples)), expected)
                    << "samples " << samples << " seed " << seed << " pass " << pass;
            }
        }
    }
}

TEST(Permuted, OrdersEveryPassAnew) {
    std::set<std::vector<std::int64_t>> orders;
    for (std::uint32_t pass = 0; pass < 20; ++pass) orders.insert(pass_of(42, pass, 100));
    EXPECT_EQ(orders.size(), 20);
}

TEST(Permuted, OrdersEverySeedDifferentlyIncludingItsHighHalf) {
    std::set<std::vector<std::int64_t>> orders;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        orders.insert(pass_of(seed, 0, 100));
        orders.insert(pass_of((seed + 1) << 32, 0, 100));
    }
    EXPECT_EQ(orders.size(), 40);
}

TEST(Permuted, StaysInRangeAndRepeatsNothingForManySamples) {
    for (const std::int64_t samples :
         {std::int64_t{1} << 40, (std::int64_t{1} << 40) - 1, (std::int64_t{1} << 40) + 1,
          std::int64_t{999'999'999'989}}) {
        std::set<std::int64_t> seen;
        constexpr std::int64_t places = 10'000;
        for (std::int64_t i = 0; i < places; ++i) {
            // Half of them neighbours, half over the whole range.
            const std::int64_t place = i % 2 == 0 ? i : samples / places * i + 1;
            const std::int64_t sample = permuted(42, 1, samples, place);
            ASSERT_GE(sample, 0);
            ASSERT_LT(sample, samples);
            ASSERT_TRUE(seen.insert(sample).second) << samples << " samples, place " << place;
        }
    }
}

// Whether 8 rounds mix at all: over many passes a place holds every sample about equally often.
TEST(Permuted, GivesAPlaceEverySampleAboutEquallyOften) {
    constexpr std::int64_t samples = 10;
    constexpr std::uint32_t passes = 10'000;
    std::vector<int> counts(samples);
    for (std::uint32_t pass = 0; pass < passes; ++pass) {
        ++counts[static_cast<std::size_t>(permuted(42, pass, samples, 3))];
    }
    // 1000 expected, standard deviation 30.
    for (const int count : counts) EXPECT_NEAR(count, 1000, 150);
}

TEST(Sampler, UsesEachSampleOncePerPassAcrossStepBorders) {
    struct Case {
        std::int64_t samples;
        std::int32_t microbatches;
        std::int32_t rows;
    };
    // Passes that end inside a step, inside a microbatch, with a step, and several in one step.
    for (const auto& [samples, microbatches, rows] :
         {Case{37, 4, 3}, Case{257, 8, 2}, Case{24, 4, 3}, Case{1, 1, 1}, Case{5, 4, 4},
          Case{1000, 3, 7}, Case{4099, 1, 64}}) {
        constexpr std::size_t passes = 5;
        const auto size = static_cast<std::size_t>(samples);
        for (const std::uint64_t seed : seeds) {
            const Sampler sampler{seed, samples, microbatches, rows};
            const auto trained = first_rows(sampler, microbatches, rows, passes * size);
            for (std::size_t pass = 0; pass < passes; ++pass) {
                const auto first = trained.begin() + static_cast<std::ptrdiff_t>(pass * size);
                ASSERT_EQ(sorted({first, first + samples}), each_once(samples))
                    << "samples " << samples << " seed " << seed << " pass " << pass;
            }
        }
    }
}

TEST(Sampler, FollowsThePermutationOfThePass) {
    const Sampler sampler{42, 10, 2, 3};
    // Row 1 of microbatch 1 of step 3 has number (3 * 2 + 1) * 3 + 1 = 22: pass 2, place 2.
    EXPECT_EQ(sampler.sample(Step{3}, Microbatch{1}, 1), permuted(42, 2, 10, 2));
}

TEST(Sampler, SamplesOfAPassDoNotDependOnBatchShape) {
    const auto one_by_one = first_rows(Sampler{42, 37, 1, 1}, 1, 1, 200);
    EXPECT_EQ(first_rows(Sampler{42, 37, 4, 3}, 4, 3, 200), one_by_one);
    EXPECT_EQ(first_rows(Sampler{42, 37, 3, 4}, 3, 4, 200), one_by_one);
    EXPECT_EQ(first_rows(Sampler{42, 37, 64, 5}, 64, 5, 200), one_by_one);
}

TEST(Sampler, CountsRowsWithoutOverflow) {
    constexpr std::int32_t last_step = std::numeric_limits<std::int32_t>::max();
    constexpr std::int32_t microbatches = 1 << 30;
    constexpr std::int32_t rows = 4;
    constexpr std::int64_t samples = std::int64_t{1} << 40;
    // The last row of the longest run of the largest step has number 2^63 - 1.
    constexpr std::int64_t number = std::numeric_limits<std::int64_t>::max();
    EXPECT_EQ(
        (Sampler{42, samples, microbatches, rows}.sample(Step{last_step},
                                                         Microbatch{microbatches - 1}, rows - 1)),
        permuted(42, static_cast<std::uint32_t>(number / samples), samples, number % samples));
}

TEST(SamplerDeathTest, RefusesPlacesOutsideTheStep) {
    const Sampler sampler{42, 10, 2, 3};
    EXPECT_DEATH((void)sampler.sample(Step{0}, Microbatch{2}, 0), "microbatch");
    EXPECT_DEATH((void)sampler.sample(Step{0}, Microbatch{0}, 3), "row");
    EXPECT_DEATH((void)permuted(42, 0, 10, 10), "place");
}

}  // namespace
}  // namespace rhizome::data
