// From epoch to epoch: after any losses, at any call, also in the opening of an epoch, those who
// live have the same members and go on, and nothing that was sent in one epoch is heard in another.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "unit/world_fake.hpp"
#include "world/fake_world.hpp"

namespace rhizome::world {
namespace {

using namespace std::chrono_literals;

constexpr std::int32_t rounds = 5;
constexpr Nanoseconds patience = 1s;  // of virtual time

/// What one worker lived through.
struct Diary {
    std::vector<std::vector<WorkerId>> members;  // by epoch
    std::vector<std::int32_t> committed_in;      // by round: the epoch
    bool finished = false;
};

/// Everybody to everybody: in which epoch and round it is.
class Talk {
  public:
    Talk(World& world, std::int32_t round) : world_{world}, said_{world.epoch().value(), round} {
        heard_.resize(world.members().size());
        for (std::size_t i = 0; i < heard_.size(); ++i) {
            const WorkerId peer = world.members()[i];
            if (peer == world.self()) continue;
            tickets_.push_back(
                world.receive(peer, Tag{0}, std::as_writable_bytes(std::span{heard_[i]})));
            tickets_.push_back(world.send(peer, Tag{0}, std::as_bytes(std::span{said_})));
        }
    }

    [[nodiscard]] CommStatus wait() {
        const Nanoseconds deadline = world_.clock().now() + patience;
        while (status_ == CommStatus::ok && !tickets_.empty()) {
            if (poll_all()) continue;
            if (world_.clock().now() >= deadline) return CommStatus::timed_out;
            world_.rest(deadline);
        }
        if (status_ != CommStatus::ok) return status_;
        for (std::size_t i = 0; i < heard_.size(); ++i) {
            if (world_.members()[i] == world_.self()) continue;
            EXPECT_EQ(heard_[i], said_) << "from " << world_.members()[i].value();
        }
        return CommStatus::ok;
    }

    /// After the epoch is over.
    void settle() {
        const Nanoseconds deadline = world_.clock().now() + patience;
        while (!tickets_.empty() && world_.clock().now() < deadline) {
            if (!poll_all()) world_.rest(deadline);
        }
        EXPECT_TRUE(tickets_.empty());
    }

  private:
    /// Whether any has ended.
    bool poll_all() {
        return std::erase_if(tickets_, [this](Ticket ticket) {
                   const auto ended = world_.poll(ticket);
                   if (ended && *ended != CommStatus::ok) status_ = *ended;
                   return ended.has_value();
               }) > 0;
    }

    World& world_;
    std::array<std::int32_t, 2> said_;
    std::vector<std::array<std::int32_t, 2>> heard_;
    std::vector<Ticket> tickets_;
    CommStatus status_ = CommStatus::ok;
};

/// Until all rounds are committed, through as many epochs as it takes.
void live(World& world, Diary& diary) {
    diary.members.push_back(world.members());
    for (std::int32_t round = 0; round < rounds;) {
        Talk talk{world, round};
        const bool well = talk.wait() == CommStatus::ok;
        if (!well) world.revoke();
        const Agreement agreement = world.agree(well ? 1 : 0, world.clock().now() + patience);
        if (agreement.status == CommStatus::ok && agreement.flags == 1) {
            diary.committed_in.push_back(world.epoch().value());
            ++round;
            continue;
        }
        ASSERT_NE(agreement.status, CommStatus::timed_out);
        world.revoke();
        talk.settle();
        ASSERT_EQ(world.open_epoch(world.clock().now() + patience), CommStatus::ok);
        diary.members.push_back(world.members());
    }
    diary.finished = true;
}

struct Tally {
    int survivors = 0;
    int epochs = 0;
    int killed = 0;
};

void check(const std::vector<FakeOutcome>& outcomes, const std::vector<Diary>& diaries,
           Tally& tally) {
    const Diary* first = nullptr;
    for (std::size_t worker = 0; worker < diaries.size(); ++worker) {
        SCOPED_TRACE("worker " + std::to_string(worker));
        if (outcomes[worker].error) std::rethrow_exception(outcomes[worker].error);
        tally.killed += outcomes[worker].end == FakeEnd::killed ? 1 : 0;
        const Diary& diary = diaries[worker];
        if (outcomes[worker].end != FakeEnd::returned) continue;
        ++tally.survivors;
        EXPECT_TRUE(diary.finished);
        if (first == nullptr) first = &diary;
        EXPECT_EQ(diary.members, first->members);
        EXPECT_EQ(diary.committed_in, first->committed_in);
        tally.epochs += static_cast<int>(diary.members.size()) - 1;
        // Each opening had a reason.
        for (std::size_t epoch = 1; epoch < diary.members.size(); ++epoch) {
            EXPECT_LT(diary.members[epoch].size(), diaries.size());
        }
        const auto& last = diary.members.back();
        EXPECT_TRUE(std::find(last.begin(), last.end(),
                              WorkerId{static_cast<std::int32_t>(worker)}) != last.end());
    }
}

TEST(FakeEpochs, AreTheSameForAllWhoLiveWhoeverDiesWhen) {
    Tally tally;
    std::mt19937_64 random{5};
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const auto workers = static_cast<std::int32_t>(2 + seed % 4);
        FakeWorldConfig config{.workers = workers, .seed = seed, .detection_max = 30us};
        for (std::int32_t victim = 1; victim < workers; ++victim) {
            const WorkerId who{static_cast<std::int32_t>(
                (static_cast<std::uint64_t>(victim) + seed) % static_cast<std::uint64_t>(workers))};
            const auto call = static_cast<std::int64_t>(
                random() % static_cast<std::uint64_t>(10 * rounds * workers));
            config.kills.push_back({who, call, Nanoseconds{(random() % 3) * 7'000}});
        }
        std::vector<Diary> diaries(static_cast<std::size_t>(workers));
        const auto outcomes = run_fake_world(
            config, [&](World& world) { live(world, diaries[world.self().index()]); });
        check(outcomes, diaries, tally);
        if (HasFailure()) return;
    }
    EXPECT_GT(tally.killed, 3000);
    EXPECT_GT(tally.survivors, 3000);
    EXPECT_GT(tally.epochs, 3000);
}

TEST(FakeEpochs, AreOpenedAloneByTheLastOne) {
    std::vector<Diary> diaries(3);
    const auto outcomes =
        run_fake_world({.workers = 3, .seed = 1, .kills = {{WorkerId{0}, 3}, {WorkerId{2}, 5}}},
                       [&](World& world) { live(world, diaries[world.self().index()]); });
    Tally tally;
    check(outcomes, diaries, tally);
    ASSERT_EQ(tally.survivors, 1);
    EXPECT_EQ(diaries[1].members.back(), std::vector{WorkerId{1}});
}

TEST(FakeEpochs, AreMadePossibleByARenewal) {
    constexpr std::int32_t workers = 4;
    int renewals = 0;
    const auto outcomes =
        run_fake_world({.workers = workers, .seed = 1, .spares = 1}, [&](World& world) {
            const auto deadline = [&] { return world.clock().now() + patience; };
            for (std::int32_t victim = 1; victim < workers; ++victim) {
                EXPECT_FALSE(world.runs_short());
                if (world.self() == WorkerId{victim}) die_in(world);
                EXPECT_EQ(world.agree(1, deadline()).status, CommStatus::peer_lost);
                ASSERT_EQ(world.open_epoch(deadline()), CommStatus::ok);
                if (victim == workers - 1) break;
                EXPECT_TRUE(world.runs_short());
                ASSERT_EQ(world.agree(1, deadline()).status, CommStatus::ok);
                ASSERT_EQ(world.renew(deadline()), CommStatus::ok);
                ++renewals;
            }
            EXPECT_FALSE(world.runs_short());  // alone
            EXPECT_EQ(world.open_epoch(deadline()), CommStatus::revoked);
        });
    if (outcomes[0].error) std::rethrow_exception(outcomes[0].error);
    EXPECT_EQ(renewals, 3 + 2);
}

TEST(FakeEpochs, ALossInARenewalLeavesWhatThereWas) {
    int lost = 0;
    const auto outcomes = run_fake_world(
        {.workers = 4, .seed = 1, .spares = 3, .kills = {{WorkerId{3}, 0}, {WorkerId{2}, 3}}},
        [&](World& world) {
            const auto deadline = [&] { return world.clock().now() + patience; };
            EXPECT_EQ(world.agree(1, deadline()).status, CommStatus::peer_lost);
            ASSERT_EQ(world.open_epoch(deadline()), CommStatus::ok);
            ASSERT_EQ(world.agree(1, deadline()).status, CommStatus::ok);
            lost += world.renew(deadline()) == CommStatus::peer_lost ? 1 : 0;
            EXPECT_EQ(world.open_epoch(deadline()), CommStatus::ok);
        });
    for (const FakeOutcome& outcome : outcomes) {
        if (outcome.error) std::rethrow_exception(outcome.error);
    }
    EXPECT_EQ(outcomes[2].end, FakeEnd::killed);
    EXPECT_EQ(lost, 2);
}

TEST(FakeEpochs, AStoppedWorkerHoldsTheOpeningUpNoLongerThanItsDeadline) {
    int late = 0;
    const auto outcomes = run_fake_world(
        {.workers = 3, .seed = 1, .kills = {{WorkerId{0}, 0}}, .stops = {{WorkerId{2}, 2}}},
        [&](World& world) {
            world.revoke();
            (void)world.agree(0, world.clock().now() + patience);
            late += world.open_epoch(world.clock().now() + patience) == CommStatus::timed_out;
            EXPECT_LE(world.clock().now(), 2 * patience);
        });
    if (outcomes[1].error) std::rethrow_exception(outcomes[1].error);
    EXPECT_EQ(outcomes[2].end, FakeEnd::stopped);
    EXPECT_EQ(late, 1);
}

}  // namespace
}  // namespace rhizome::world
