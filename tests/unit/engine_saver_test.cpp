// States saved while the engine trains, on worlds and disks that fail. What must hold: a state
// under its final name is whole and is, bit for bit, that of a calm run after so many steps; and
// whoever goes on from it, in whatever layout, ends like the calm run.
#include "engine/saver.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "state/fake_disk.hpp"
#include "support/saving_run.hpp"
#include "world/fake_world.hpp"

namespace rhizome::tests {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::Each;
using testing::Field;
using testing::IsEmpty;

constexpr std::int32_t steps = 6;

/// Digests of everything after each number of steps.
const std::vector<std::string>& calm() {
    static const std::vector<std::string> digests = [] {
        SmallRun run{lively()};
        std::vector<std::string> found;
        for (std::int32_t step = 0; step <= steps; ++step) {
            found.push_back(engine::digest_of(run.trainer.chunk_digests()));
            if (step < steps) run.trainer.run_step(Step{step});
        }
        return found;
    }();
    return digests;
}

struct Case {
    std::string name;
    std::int32_t workers;
    Arrangement arrangement;
};

const std::vector<Case>& cases() {
    static const std::vector<Case> all{
        {"alone", 1, {}},
        {"pipeline", 3, {.depths = {3}}},
        {"replicas", 3, {.depths = {1, 1, 1}, .owners = 3}},
        {"uneven", 5, {.depths = {3, 2}, .style = schedule::Style::zero_bubble_h1, .owners = 1}},
        {"spare", 4, {.depths = {1, 2}}},
    };
    return all;
}

using Disk = std::shared_ptr<state::FakeDisk>;

struct Trial {
    std::vector<SavingEnd> ends;
    std::vector<world::FakeOutcome> outcomes;
};

Trial run(const Case& each, const Disk& disk, const SavingLength& length,
          world::FakeWorldConfig config, int looks_max = 3) {
    Trial trial;
    trial.ends.resize(static_cast<std::size_t>(each.workers));
    config.workers = each.workers;
    trial.outcomes = world::run_fake_world(config, [&](world::World& world) {
        const auto self = static_cast<std::uint64_t>(world.self().value());
        DrawnBackground background{config.seed * 100 + self, looks_max};
        trial.ends[world.self().index()] =
            run_saving_worker(world, disk, background, lively(), each.arrangement, length, 100ms);
    });
    for (const world::FakeOutcome& outcome : trial.outcomes) {
        if (outcome.error) std::rethrow_exception(outcome.error);
    }
    return trial;
}

/// How many there are; every one of them is whole and right.
std::vector<std::int32_t> expect_whole_states(const Disk& disk) {
    std::vector<std::int32_t> found;
    for (const state::FoundState& each : state::find_states(*disk, states_place)) {
        const state::Verified verified = state::verify_state(disk, each.path);
        for (const state::Fault& fault : verified.faults) {
            ADD_FAILURE() << each.path << ": " << fault.file << ": " << fault.place << ": "
                          << fault.reason;
        }
        EXPECT_EQ(verified.weights, calm().at(static_cast<std::size_t>(each.steps))) << each.path;
        found.push_back(each.steps);
    }
    return found;
}

void expect_calm_end(const Trial& trial) {
    for (const SavingEnd& end : trial.ends) {
        EXPECT_EQ(end.end.status, CommStatus::ok);
        EXPECT_EQ(end.end.steps_done, steps);
    }
    EXPECT_EQ(engine::digest_of(trial.ends.front().chunks), calm().at(steps));
}

TEST(Saver, SavesAtIntervalsAndAtTheEnd) {
    for (const Case& each : cases()) {
        for (std::uint64_t seed = 0; seed < 5; ++seed) {
            SCOPED_TRACE(each.name + ", seed " + std::to_string(seed));
            const auto disk = std::make_shared<state::FakeDisk>();
            const Trial trial =
                run(each, disk, {.steps = steps, .save_interval = 2}, {.seed = seed}, 0);
            expect_calm_end(trial);
            // A save takes three steps and more here; what is due meanwhile comes later.
            const auto found = expect_whole_states(disk);
            EXPECT_EQ(found.front(), steps);
            EXPECT_THAT(found, Contains(2));
            for (const SavingEnd& end : trial.ends) EXPECT_EQ(end.saved, steps);
            EXPECT_EQ(trial.ends.front().saves.size(), found.size());
            EXPECT_THAT(trial.ends.front().saves,
                        Each(Field(&engine::SaveEnd::problem, IsEmpty())));
        }
    }
}

TEST(Saver, StateIsReadByEveryOtherLayout) {
    std::uint64_t seed = 0;
    for (const Case& before : cases()) {
        for (const Case& after : cases()) {
            const auto stop_after = static_cast<std::int32_t>(seed % (steps - 1));
            SCOPED_TRACE(before.name + " until " + std::to_string(stop_after + 1) + ", then " +
                         after.name);
            const auto disk = std::make_shared<state::FakeDisk>();
            const Trial first =
                run(before, disk, {.steps = steps, .save_interval = 0, .stop_after = stop_after},
                    {.seed = seed});
            for (const SavingEnd& end : first.ends) EXPECT_EQ(end.saved, stop_after + 1);
            EXPECT_EQ(expect_whole_states(disk), std::vector{stop_after + 1});
            const Trial second =
                run(after, disk, {.steps = steps, .save_interval = 0}, {.seed = seed + 1000});
            for (const SavingEnd& end : second.ends) EXPECT_EQ(end.first_step, stop_after + 1);
            expect_calm_end(second);
            EXPECT_EQ(expect_whole_states(disk), (std::vector{steps, stop_after + 1}));
            ++seed;
        }
    }
}

TEST(Saver, SavesWhenSomebodyAsksForIt) {
    const auto disk = std::make_shared<state::FakeDisk>();
    const Trial trial = run(cases()[3], disk,
                            {.steps = steps, .save_interval = 0, .save_asked_in = 2}, {.seed = 7});
    expect_calm_end(trial);
    EXPECT_EQ(expect_whole_states(disk), (std::vector{steps, 3}));
}

TEST(Saver, KeepsWhatTheRuleSays) {
    const auto disk = std::make_shared<state::FakeDisk>();
    const Trial trial =
        run(cases()[0], disk, {.steps = steps, .save_interval = 1, .keep = {.last = 1, .every = 4}},
            {.seed = 7}, 0);
    expect_calm_end(trial);
    EXPECT_GT(trial.ends.front().saves.size(), 2U);
    for (const std::int32_t each : expect_whole_states(disk)) {
        EXPECT_TRUE(each == steps || each % 4 == 0) << each;
    }
}

TEST(Saver, HoldsUpNoStepWhileTheDiskIsSlow) {
    const auto disk = std::make_shared<state::FakeDisk>();
    const auto outcomes = world::run_fake_world({.workers = 1}, [&](world::World& world) {
        StuckBackground background;
        const SavingEnd end = run_saving_worker(world, disk, background, lively(), {},
                                                {.steps = steps, .save_interval = 1}, 100ms);
        EXPECT_EQ(end.end.status, CommStatus::ok);
        EXPECT_EQ(end.end.steps_done, steps);
        EXPECT_EQ(engine::digest_of(end.chunks), calm().at(steps));
        EXPECT_EQ(end.saved, std::nullopt);  // given up at the end, after its patience
        ASSERT_EQ(end.saves.size(), 1U);
        EXPECT_THAT(end.saves.front().problem, testing::HasSubstr("too long"));
    });
    if (outcomes[0].error) std::rethrow_exception(outcomes[0].error);
    EXPECT_THAT(state::find_states(*disk, states_place), IsEmpty());
}

/// Of a run without faults.
std::int64_t operations_of(const Case& each, const SavingLength& length) {
    const auto disk = std::make_shared<state::FakeDisk>();
    static_cast<void>(run(each, disk, length, {.seed = 3}));
    return disk->operations();
}

TEST(Saver, AFileOperationThatFailsFailsOneSaveAndNothingElse) {
    const SavingLength length{.steps = steps, .save_interval = 3, .looks_for_states = false};
    for (const Case& each : {cases()[0], cases()[1]}) {
        const std::int64_t operations = operations_of(each, length);
        int failed_saves = 0;
        for (std::int64_t n = 0; n < operations; n += 4 * each.workers - 1) {
            SCOPED_TRACE(each.name + ", operation " + std::to_string(n));
            const auto disk = std::make_shared<state::FakeDisk>();
            disk->fail_operation(n, std::errc::io_error);
            const Trial trial = run(each, disk, length, {.seed = 3});
            EXPECT_TRUE(disk->fired());
            expect_calm_end(trial);
            const auto found = expect_whole_states(disk);
            const auto saved = trial.ends.front().saved;
            // What went wrong after the rename leaves a state that counts as not saved.
            const auto& last = trial.ends.front().saves.back();
            const auto there = found.empty() ? std::nullopt : std::optional{found.front()};
            EXPECT_TRUE(there == saved || (there == last.steps && !last.problem.empty()));
            for (const SavingEnd& end : trial.ends) EXPECT_EQ(end.saved, saved);
            for (const engine::SaveEnd& save : trial.ends.front().saves) {
                failed_saves += save.problem.empty() ? 0 : 1;
            }
        }
        EXPECT_GT(failed_saves, 20);
    }
}

TEST(Saver, AFullDiskLeavesOlderStatesWhole) {
    const auto enough = std::make_shared<state::FakeDisk>();
    static_cast<void>(run(cases()[1], enough, {.steps = steps, .save_interval = 3}, {.seed = 3}));
    const std::int64_t bytes = enough->bytes_used();
    int kept_the_older = 0;
    for (int part = 1; part < 20; ++part) {
        SCOPED_TRACE(part);
        const auto disk = std::make_shared<state::FakeDisk>();
        disk->set_capacity(bytes * part / 20);
        const Trial trial =
            run(cases()[1], disk, {.steps = steps, .save_interval = 3}, {.seed = 3});
        EXPECT_TRUE(disk->fired());
        expect_calm_end(trial);
        const auto found = expect_whole_states(disk);
        kept_the_older += found == std::vector{3} ? 1 : 0;
        bool told = false;
        for (const SavingEnd& end : trial.ends) {
            for (const engine::SaveEnd& save : end.saves) {
                told = told || save.problem.find("No space left") != std::string::npos;
            }
        }
        EXPECT_TRUE(told);
    }
    EXPECT_GT(kept_the_older, 3);
}

TEST(Saver, ProcessesThatAllDieAtOnceLeaveWholeStatesFromWhichOthersGoOn) {
    const SavingLength length{.steps = steps, .save_interval = 2, .looks_for_states = false};
    const std::int64_t operations = operations_of(cases()[1], length);
    std::set<std::int32_t> resumed_from;
    for (std::int64_t n = 0; n < operations; n += 11) {
        SCOPED_TRACE("operation " + std::to_string(n));
        const auto disk = std::make_shared<state::FakeDisk>();
        disk->stop_at(n);
        static_cast<void>(run(cases()[1], disk, length, {.seed = 3}));
        EXPECT_TRUE(disk->fired());
        // A kill leaves all that was written; a loss of power what was synced, and what it likes.
        for (const Disk& left :
             {disk->after_kill(), disk->after_power_loss(static_cast<std::uint64_t>(n))}) {
            const auto found = expect_whole_states(left);
            resumed_from.insert(found.empty() ? 0 : found.front());
            const Case& other = cases()[static_cast<std::size_t>(n) % cases().size()];
            expect_calm_end(run(other, left, {.steps = steps, .save_interval = 2}, {.seed = 4}));
            EXPECT_EQ(expect_whole_states(left).front(), steps);
        }
    }
    EXPECT_GE(resumed_from.size(), 3U);  // steps 0, 2 and a later one
}

TEST(Saver, AWriterThatDiesAloneLeavesWholeStates) {
    const Case& each = cases()[3];
    const SavingLength length{.steps = steps, .save_interval = 2};
    int lost = 0;
    std::set<std::int32_t> resumed_from;
    for (std::int32_t victim = 0; victim < each.workers; ++victim) {
        for (std::int64_t call = 5; call < 4000; call = call * 3 / 2 + 1) {
            SCOPED_TRACE("worker " + std::to_string(victim) + ", call " + std::to_string(call));
            const auto disk = std::make_shared<state::FakeDisk>();
            const Trial trial = run(
                each, disk, length,
                {.seed = static_cast<std::uint64_t>(call), .kills = {{WorkerId{victim}, call}}});
            const auto& outcome = trial.outcomes[static_cast<std::size_t>(victim)];
            lost += outcome.end == world::FakeEnd::killed ? 1 : 0;
            const auto found = expect_whole_states(disk);
            resumed_from.insert(found.empty() ? 0 : found.front());
            expect_calm_end(run(cases()[1], disk, length, {.seed = 4}));
        }
    }
    EXPECT_GT(lost, 30);
    EXPECT_GE(resumed_from.size(), 2U);
}

}  // namespace
}  // namespace rhizome::tests
