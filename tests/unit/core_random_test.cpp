#include "core/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <set>
#include <vector>

namespace rhizome {
namespace {

constexpr std::uint64_t seed = 0x0123456789ABCDEF;
constexpr PhiloxKey key{0x89ABCDEF, 0x01234567};
constexpr std::uint32_t all_ones = std::numeric_limits<std::uint32_t>::max();

TEST(Uniform, DropsTheLowEightBitsAndStaysBelowOne) {
    EXPECT_EQ(uniform(0), 0.0F);
    EXPECT_EQ(uniform(255), 0.0F);
    EXPECT_EQ(uniform(256), 0x1p-24F);
    EXPECT_EQ(uniform(0x40000000), 0.25F);
    EXPECT_EQ(uniform(0x80000000), 0.5F);
    EXPECT_EQ(uniform(0x800000FF), 0.5F);
    EXPECT_EQ(uniform(all_ones), 1.0F - 0x1p-24F);
}

TEST(Uniform, OfTwoWordsHasFiftyThreeBitsAndStaysBelowOne) {
    EXPECT_EQ(uniform(0, 63), 0.0);
    EXPECT_EQ(uniform(0, 64), 0x1p-53);
    EXPECT_EQ(uniform(31, 0), 0.0);
    EXPECT_EQ(uniform(32, 0), 0x1p-27);
    EXPECT_EQ(uniform(0x80000000, 0), 0.5);
    EXPECT_EQ(uniform(all_ones, all_ones), 1.0 - 0x1p-53);
}

TEST(Uniform, IsSpreadEvenlyOverTheUnitInterval) {
    const RandomSite site = RandomSite::in_step(7, LayerId{2}, 1, Step{3}, Microbatch{4});
    std::array<int, 10> tenths{};
    constexpr std::uint32_t blocks = 25000;
    for (std::uint32_t block = 0; block < blocks; ++block) {
        for (const std::uint32_t word : site.words(block)) {
            const float drawn = uniform(word);
            ASSERT_GE(drawn, 0.0F);
            ASSERT_LT(drawn, 1.0F);
            ++tenths[static_cast<std::size_t>(drawn * 10.0F)];
        }
    }
    for (const int count : tenths) EXPECT_NEAR(count, 10000, 5 * std::sqrt(9000.0));
}

TEST(RandomSite, LaysOutTheCounterAsThePageSays) {
    EXPECT_EQ(RandomSite::in_step(seed, LayerId{5}, 2, Step{7}, Microbatch{11}).words(13),
              philox4x32_10({13, 11, 7, (5U << 16) + 2}, key));
    EXPECT_EQ(RandomSite::initial(seed, LayerId{5}, 2).words(13),
              philox4x32_10({13, 0, 0, (5U << 16) + 0x8002}, key));
    EXPECT_EQ(RandomSite::sampler(seed, 3, 6).words(13),
              philox4x32_10({13, 6, 3, 0xFFFF0000}, key));
    EXPECT_EQ(RandomSite::generation(seed).words(13), philox4x32_10({13, 0, 0, 0xFFFF0001}, key));
}

TEST(RandomSite, GivesOtherWordsWhereverOnePartOfThePlaceDiffers) {
    const std::vector<RandomSite> sites{
        RandomSite::in_step(seed, LayerId{0}, 0, Step{0}, Microbatch{0}),
        RandomSite::in_step(seed + 1, LayerId{0}, 0, Step{0}, Microbatch{0}),
        RandomSite::in_step(seed + (1ULL << 32), LayerId{0}, 0, Step{0}, Microbatch{0}),
        RandomSite::in_step(seed, LayerId{1}, 0, Step{0}, Microbatch{0}),
        RandomSite::in_step(seed, LayerId{0}, 1, Step{0}, Microbatch{0}),
        RandomSite::in_step(seed, LayerId{0}, 0, Step{1}, Microbatch{0}),
        RandomSite::in_step(seed, LayerId{0}, 0, Step{0}, Microbatch{1}),
        RandomSite::initial(seed, LayerId{0}, 0),
        RandomSite::initial(seed, LayerId{0}, 1),
        RandomSite::initial(seed, LayerId{1}, 0),
        RandomSite::initial(seed, LayerId{0xFFFE}, 0x7FFF),
        RandomSite::in_step(seed, LayerId{0xFFFE}, 0x7FFF, Step{0}, Microbatch{0}),
        RandomSite::sampler(seed, 0, 0),
        RandomSite::sampler(seed, 1, 0),
        RandomSite::sampler(seed, 0, 1),
        RandomSite::generation(seed),
    };
    constexpr std::uint32_t blocks = 100;
    std::set<std::array<std::uint32_t, 4>> seen;
    for (const RandomSite& site : sites) {
        for (std::uint32_t block = 0; block < blocks; ++block) seen.insert(site.words(block));
    }
    EXPECT_EQ(seen.size(), sites.size() * blocks);
}

TEST(RandomSiteDeathTest, RefusesPlacesThatWouldMeetAnother) {
    const testing::ExitedWithCode our_fault{1};
    EXPECT_EXIT((void)RandomSite::in_step(0, LayerId{0}, 0x8000, Step{0}, Microbatch{0}), our_fault,
                "broken promise");
    EXPECT_EXIT((void)RandomSite::in_step(0, LayerId{0}, -1, Step{0}, Microbatch{0}), our_fault,
                "broken promise");
    EXPECT_EXIT((void)RandomSite::in_step(0, LayerId{0xFFFF}, 0, Step{0}, Microbatch{0}), our_fault,
                "broken promise");
    EXPECT_EXIT((void)RandomSite::initial(0, LayerId{0xFFFF}, 0), our_fault, "broken promise");
    EXPECT_EXIT((void)RandomSite::initial(0, LayerId{0}, 0x8000), our_fault, "broken promise");
}

TEST(Normals, HaveTheMomentsOfTheNormalDistribution) {
    const RandomSite site = RandomSite::initial(99, LayerId{3}, 1);
    std::vector<double> drawn;
    for (std::uint32_t block = 0; block < 25000; ++block) {
        for (const double number : normals(site, block)) drawn.push_back(number);
    }
    const auto count = static_cast<double>(drawn.size());
    double mean = 0;
    for (const double number : drawn) mean += number / count;
    double variance = 0;
    double fourth = 0;
    double neighbours = 0;
    for (std::size_t i = 0; i < drawn.size(); ++i) {
        const double square = (drawn[i] - mean) * (drawn[i] - mean);
        variance += square / count;
        fourth += square * square / count;
        if (i % 2 == 0) neighbours += drawn[i] * drawn[i + 1] / (count / 2);
    }
    // Five standard errors each.
    EXPECT_NEAR(mean, 0.0, 5 / std::sqrt(count));
    EXPECT_NEAR(variance, 1.0, 5 * std::sqrt(2 / count));
    EXPECT_NEAR(fourth / (variance * variance), 3.0, 5 * std::sqrt(24 / count));
    EXPECT_NEAR(neighbours, 0.0, 5 / std::sqrt(count / 2)) << "a pair from one radius is related";
}

/// The counter that Philox turns into these words.
PhiloxCounter counter_of(PhiloxCounter words, PhiloxKey first_key) {
    const auto inverse = [](std::uint32_t odd) {  // modulo 2^32, by Newton's iteration
        std::uint32_t guess = odd;
        for (int i = 0; i < 5; ++i) guess *= 2 - odd * guess;
        return guess;
    };
    constexpr std::uint64_t multiplier_0 = 0xD2511F53;
    constexpr std::uint64_t multiplier_1 = 0xCD9E8D57;
    for (std::uint32_t rounds_left = 10; rounds_left > 0; --rounds_left) {
        const std::uint32_t round = rounds_left - 1;
        const PhiloxKey round_key{first_key[0] + round * 0x9E3779B9,
                                  first_key[1] + round * 0xBB67AE85};
        const std::uint32_t word_0 = words[3] * inverse(multiplier_0 & all_ones);
        const std::uint32_t word_2 = words[1] * inverse(multiplier_1 & all_ones);
        const auto high = [](std::uint64_t product) {
            return static_cast<std::uint32_t>(product >> 32);
        };
        words = {word_0, words[0] ^ high(multiplier_1 * word_2) ^ round_key[0], word_2,
                 words[2] ^ high(multiplier_0 * word_0) ^ round_key[1]};
    }
    return words;
}

/// Normals of a block whose words are these; some seed has it at a place that exists.
std::array<double, 4> normals_of(const PhiloxCounter& words) {
    for (std::uint32_t low = 0; low < 1000; ++low) {
        const PhiloxCounter counter = counter_of(words, {low, 0});
        const auto layer = static_cast<std::int32_t>(counter[3] >> 16);
        const std::uint32_t site = counter[3] & 0xFFFF;
        if ((counter[1] | counter[2]) >> 31 != 0 || layer == 0xFFFF || site >= 0x8000) continue;
        const RandomSite found =
            RandomSite::in_step(low, LayerId{layer}, static_cast<int>(site),
                                Step{static_cast<std::int32_t>(counter[2])},
                                Microbatch{static_cast<std::int32_t>(counter[1])});
        EXPECT_EQ(found.words(counter[0]), words);
        return normals(found, counter[0]);
    }
    ADD_FAILURE() << "no seed has these words";
    return {};
}

TEST(Normals, AreFiniteAndRightForExtremeWords) {
    // sqrt(-2 ln 2^-33) for word 0, sqrt(-2 ln (1 - 2^-33)) = 2^-16 for the largest.
    const double longest = std::sqrt(66 * std::numbers::ln2);
    constexpr double shortest = 0x1p-16;

    const auto zeros = normals_of({0, 0, 0, all_ones});
    EXPECT_NEAR(zeros[0], longest, 1e-14);
    EXPECT_NEAR(zeros[1], longest * std::numbers::pi * 0x1p-32, 1e-22);
    EXPECT_NEAR(zeros[2], longest, 1e-14);
    EXPECT_NEAR(zeros[3], -longest * std::numbers::pi * 0x1p-32, 1e-14);

    const auto ones = normals_of({all_ones, all_ones, all_ones, 0x40000000});
    EXPECT_NEAR(ones[0], shortest, 1e-14);
    EXPECT_NEAR(ones[1], -shortest * std::numbers::pi * 0x1p-32, 1e-20);
    EXPECT_NEAR(ones[2], -shortest * std::numbers::pi * 0x1p-32, 1e-20);  // a quarter of a turn
    EXPECT_NEAR(ones[3], shortest, 1e-14);
}

TEST(Normals, FollowTheFormulaOfThePage) {
    const RandomSite site = RandomSite::initial(seed, LayerId{1}, 4);
    for (std::uint32_t block = 0; block < 50; ++block) {
        const auto words = site.words(block);
        const auto drawn = normals(site, block);
        for (std::size_t pair = 0; pair < 4; pair += 2) {
            const double share = (words[pair] + 0.5) / 4294967296.0;
            const double turn = (words[pair + 1] + 0.5) / 4294967296.0;
            const double radius = std::sqrt(-2 * std::log(share));
            const double angle = 2 * std::numbers::pi * turn;
            EXPECT_DOUBLE_EQ(drawn[pair], radius * std::cos(angle));
            EXPECT_DOUBLE_EQ(drawn[pair + 1], radius * std::sin(angle));
        }
    }
}

}  // namespace
}  // namespace rhizome
