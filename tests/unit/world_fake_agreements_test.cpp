// Agreements of the fake world while workers die: before they give their flags, while they wait and
// afterwards.
#include <gtest/gtest.h>

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

/// Ends of rounds, so that a test which never sees one of them says so.
struct Tally {
    int ok = 0;
    int lost = 0;
    int timed_out = 0;
};

void check_round(const Round& round, Tally& tally) {
    std::uint32_t all = std::numeric_limits<std::uint32_t>::max();
    std::uint32_t living = all;
    bool all_gave = true;
    std::optional<Agreement> agreed;
    for (std::size_t worker = 0; worker < round.given.size(); ++worker) {
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
    }
    ++(agreed->status == CommStatus::ok ? tally.ok : tally.lost);
}

TEST(FakeAgreements, OneIsTheSameForAllWhoLearnOfItWhoeverDiesWhen) {
    constexpr std::size_t rounds = 3;
    constexpr std::int32_t workers = 4;
    Tally tally;
    for (std::uint64_t seed = 0; seed < 2000; ++seed) {
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
        (void)run_fake_world(config, [&](World& world) {
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
        for (const Round& round : seen) check_round(round, tally);
    }
    EXPECT_GT(tally.ok, 500);
    EXPECT_GT(tally.lost, 500);
    EXPECT_GT(tally.timed_out, 50);
}

TEST(FakeAgreements, OneWhoDiesWhileItWaitsIsCountedOrNotTheSameForAll) {
    int counted = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        std::vector<Agreement> learned;
        const FakeWorldConfig config{.workers = 3, .seed = seed, .kills = {{WorkerId{0}, 0, 5us}}};
        (void)run_fake_world(config, [&](World& world) {
            if (world.self() == WorkerId{0}) (void)world.agree(6, 1h);  // dies in it
            world.rest(1ms);
            learned.push_back(world.agree(3, 1h));
        });
        ASSERT_EQ(learned.size(), 2U);
        const bool ok = learned[0].status == CommStatus::ok;
        counted += ok ? 1 : 0;
        for (const Agreement& each : learned) {
            EXPECT_EQ(each.status, ok ? CommStatus::ok : CommStatus::peer_lost);
            EXPECT_EQ(each.flags, ok ? 2U : 3U);
        }
    }
    EXPECT_GT(counted, 50);
    EXPECT_LT(counted, 150);
}

}  // namespace
}  // namespace rhizome::world
