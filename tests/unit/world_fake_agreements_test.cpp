// Agreements of the fake world while workers die: before they give their flags, while they wait and
// afterwards.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "world/fake_world.hpp"

namespace rhizome::world {
namespace {

using namespace std::chrono_literals;

/// What the workers of one agreement gave and learned.
struct Round {
    std::vector<std::optional<std::uint32_t>> given;
    std::vector<std::optional<Agreement>> learned;
};

/// How many rounds ended ok although somebody was dead, and how many peer_lost although all gave.
struct Tally {
    int counted = 0;
    int omitted = 0;
    int timed_out = 0;
};

void check_round(const Round& round, const std::vector<FakeOutcome>& outcomes, Tally& tally) {
    std::uint32_t all = std::numeric_limits<std::uint32_t>::max();
    std::uint32_t living = all;
    bool all_gave = true;
    std::optional<Agreement> agreed;
    for (std::size_t worker = 0; worker < outcomes.size(); ++worker) {
        const auto& given = round.given[worker];
        all_gave = all_gave && given;
        all &= given.value_or(all);
        const auto& learned = round.learned[worker];
        if (!learned) continue;
        if (learned->status == CommStatus::timed_out) {
            ++tally.timed_out;
            continue;
        }
        living &= given.value_or(0);
        if (!agreed) agreed = learned;
        EXPECT_EQ(learned->status, agreed->status);
        EXPECT_EQ(learned->flags, agreed->flags);
    }
    if (!agreed) return;
    EXPECT_EQ(agreed->flags & all, all);  // nothing is missing that all gave
    EXPECT_EQ(agreed->flags & ~living, 0U);
    if (agreed->status == CommStatus::ok) {
        EXPECT_TRUE(all_gave);
        EXPECT_EQ(agreed->flags, all);
        if (std::count(round.learned.begin(), round.learned.end(), std::nullopt) > 0) {
            ++tally.counted;
        }
    } else if (all_gave) {
        ++tally.omitted;
    }
}

TEST(FakeAgreements, OneIsTheSameForAllWhoLearnOfItWhoeverDiesWhen) {
    constexpr std::size_t rounds = 3;
    constexpr std::int32_t workers = 4;
    Tally tally;
    for (std::uint64_t seed = 0; seed < 5000; ++seed) {
        SCOPED_TRACE(seed);
        const auto part = [seed](std::uint64_t divisor, std::uint64_t choices) {
            return static_cast<std::int32_t>(seed / divisor % choices);
        };
        const FakeWorldConfig config{
            .workers = workers,
            .seed = seed,
            .detection_max = 30us,
            .kills = {{WorkerId{part(1, 4)}, part(4, 6), part(24, 5) * 8us},
                      {WorkerId{part(7, 4)}, part(3, 7), part(11, 5) * 8us}}};
        std::vector<Round> seen(rounds);
        for (Round& round : seen) {
            round.given.resize(workers);
            round.learned.resize(workers);
        }
        const auto outcomes = run_fake_world(config, [&](World& world) {
            for (std::size_t round = 0; round < rounds; ++round) {
                world.rest(world.clock().now() + world.self().value() * 3us);
                const std::uint32_t flags = ~(1U << (8 * round + world.self().index()));
                seen[round].given[world.self().index()] = flags;  // or dies at the next call
                if (round == 1 && world.self() == WorkerId{3}) world.revoke();
                const Nanoseconds patience = seed % 5 == 0 ? 25us : 1s;
                seen[round].learned[world.self().index()] =
                    world.agree(flags, world.clock().now() + patience);
            }
        });
        for (const Round& round : seen) check_round(round, outcomes, tally);
    }
    EXPECT_GT(tally.counted, 50);
    EXPECT_GT(tally.omitted, 50);
    EXPECT_GT(tally.timed_out, 50);
}

}  // namespace
}  // namespace rhizome::world
