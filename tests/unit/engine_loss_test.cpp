// Losses at every point, on the world inside one process. What must hold: the fault fired, all who
// live come to an end inside the deadline, they agree on the last committed step, and what they own
// is, bit for bit, the state of a calm run after that step.
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/engine_run.hpp"
#include "world/fake_world.hpp"

namespace rhizome::tests {
namespace {

using namespace std::chrono_literals;

constexpr Nanoseconds patience = 100ms;  // of virtual time
constexpr RunLength length{.steps = 4, .evaluate_interval = 2, .evaluation_microbatches = 2};

/// Digests by chunk after each number of steps.
using Calm = std::vector<std::map<std::string, std::string>>;

Calm calm_run(const SmallOptions& options) {
    SmallRun run{options};
    Calm calm;
    for (std::int32_t step = 0; step <= length.steps; ++step) {
        auto& digests = calm.emplace_back();
        for (const auto& [name, hex] : run.trainer.chunk_digests()) digests[name] = hex;
        if (step < length.steps) run.trainer.run_step(Step{step});
    }
    return calm;
}

struct Case {
    std::string name;
    std::int32_t workers;
    Arrangement arrangement;
};

void PrintTo(const Case& each, std::ostream* out) { *out << each.name; }

struct Trial {
    std::vector<WorkerEnd> ends;
    std::vector<world::FakeOutcome> outcomes;
};

Trial run_trial(const Case& each, const world::FakeWorldConfig& config) {
    Trial trial;
    trial.ends.resize(static_cast<std::size_t>(each.workers));
    trial.outcomes = world::run_fake_world(config, [&](world::World& world) {
        trial.ends[world.self().index()] =
            run_worker(world, lively(), each.arrangement, length, patience);
    });
    return trial;
}

/// Of those who came to an end by themselves.
void expect_agreement_with(const Calm& calm, const Trial& trial) {
    std::optional<std::int32_t> committed;
    for (std::size_t w = 0; w < trial.ends.size(); ++w) {
        SCOPED_TRACE("worker " + std::to_string(w));
        if (trial.outcomes[w].error) std::rethrow_exception(trial.outcomes[w].error);
        if (trial.outcomes[w].end != world::FakeEnd::returned) continue;
        const WorkerEnd& end = trial.ends[w];
        if (!committed) committed = end.committed_steps;
        EXPECT_EQ(end.committed_steps, *committed);
        EXPECT_LE(end.end.steps_done, end.committed_steps);
        EXPECT_LE(end.committed_steps - end.end.steps_done, 1);
        for (const auto& [name, hex] : end.owned) {
            EXPECT_EQ(hex, calm[static_cast<std::size_t>(end.committed_steps)].at(name)) << name;
        }
    }
}

class Losses : public testing::TestWithParam<Case> {};

TEST_P(Losses, OfOneWorkerAtAnyPointLeaveTheStateOfACommittedStep) {
    const Case& each = GetParam();
    const Calm calm = calm_run(lively());
    world::FakeWorldConfig config{.workers = each.workers, .seed = 7};
    const Trial undisturbed = run_trial(each, config);
    expect_agreement_with(calm, undisturbed);
    std::map<std::int32_t, std::int32_t> trials_by_committed;
    std::mt19937_64 random{11};
    for (std::int32_t victim = 0; victim < each.workers; ++victim) {
        const std::int64_t calls = undisturbed.outcomes[static_cast<std::size_t>(victim)].calls;
        for (int trial = 0; trial < 40; ++trial) {
            const auto call =
                static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(calls));
            SCOPED_TRACE("worker " + std::to_string(victim) + " dies at call " +
                         std::to_string(call) + ", seed " + std::to_string(trial));
            config.seed = static_cast<std::uint64_t>(trial);
            config.kills = {{.worker = WorkerId{victim}, .call = call}};
            const Trial found = run_trial(each, config);
            // With another seed a run may be over before its victim gets that far.
            if (found.outcomes[static_cast<std::size_t>(victim)].end != world::FakeEnd::killed) {
                continue;
            }
            expect_agreement_with(calm, found);
            for (std::size_t w = 0; w < found.ends.size(); ++w) {
                if (found.outcomes[w].end == world::FakeEnd::returned) {
                    ++trials_by_committed[found.ends[w].committed_steps];
                }
            }
            if (HasFailure()) return;
        }
    }
    // The faults fired, in every step.
    for (std::int32_t step = 0; step < length.steps; ++step) {
        EXPECT_GT(trials_by_committed[step], 0) << step;
    }
}

TEST_P(Losses, OfTwoWorkersLeaveTheStateOfACommittedStep) {
    const Case& each = GetParam();
    if (each.workers < 3) GTEST_SKIP() << "nobody would be left";
    const Calm calm = calm_run(lively());
    const Trial undisturbed = run_trial(each, {.workers = each.workers, .seed = 7});
    std::mt19937_64 random{12};
    int fired = 0;
    for (int trial = 0; trial < 60; ++trial) {
        SCOPED_TRACE("seed " + std::to_string(trial));
        const auto first =
            static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(each.workers));
        const auto second =
            static_cast<std::int32_t>((static_cast<std::uint64_t>(first) + 1 +
                                       random() % static_cast<std::uint64_t>(each.workers - 1)) %
                                      static_cast<std::uint64_t>(each.workers));
        // About the same point in both lives, so that the second falls into what the first began.
        const double point = static_cast<double>(random() % 90) / 100;
        const auto call_at = [&](std::int32_t worker) {
            return static_cast<std::int64_t>(
                point *
                static_cast<double>(undisturbed.outcomes[static_cast<std::size_t>(worker)].calls));
        };
        const Trial found =
            run_trial(each, {.workers = each.workers,
                             .seed = static_cast<std::uint64_t>(trial),
                             .kills = {{.worker = WorkerId{first}, .call = call_at(first)},
                                       {.worker = WorkerId{second},
                                        .call = call_at(second),
                                        .after = std::chrono::microseconds{random() % 300}}}});
        fired += found.outcomes[static_cast<std::size_t>(second)].end == world::FakeEnd::killed;
        expect_agreement_with(calm, found);
        if (HasFailure()) return;
    }
    EXPECT_GT(fired, 20);
}

TEST_P(Losses, AStoppedWorkerHoldsNobodyLongerThanTheDeadline) {
    const Case& each = GetParam();
    if (each.workers < 2) GTEST_SKIP() << "nobody would be left";
    const Calm calm = calm_run(lively());
    for (std::int32_t victim = 0; victim < each.workers; ++victim) {
        SCOPED_TRACE("worker " + std::to_string(victim) + " is stopped");
        const Trial found =
            run_trial(each, {.workers = each.workers,
                             .seed = 3,
                             .stops = {{.worker = WorkerId{victim}, .call = 20 + 7 * victim}}});
        ASSERT_EQ(found.outcomes[static_cast<std::size_t>(victim)].end, world::FakeEnd::stopped);
        expect_agreement_with(calm, found);
        for (const WorkerEnd& end : found.ends) {
            if (&end == &found.ends[static_cast<std::size_t>(victim)]) continue;
            EXPECT_NE(end.end.status, CommStatus::ok);
        }
        // A wait for a message, and one for the agreement about it, and the steps before.
        for (const world::FakeOutcome& outcome : found.outcomes) {
            EXPECT_LT(outcome.ended_at, 3 * patience);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Losses,
    testing::Values(Case{"three stages", 3, {.depths = {3}}},
                    Case{"two pipelines of two stages", 4, {.depths = {2, 2}}},
                    Case{"uneven, zero bubble, one owner",
                         4,
                         {.depths = {2, 1}, .style = schedule::Style::zero_bubble_h1, .owners = 1}},
                    Case{"three replicas, all own all", 3, {.depths = {1, 1, 1}, .owners = 3}}));

}  // namespace
}  // namespace rhizome::tests
