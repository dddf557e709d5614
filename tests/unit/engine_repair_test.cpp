// The run goes on after losses at every point, on the world inside one process. What must hold: the
// fault fired, all who live come to the end of the run, every step is trained once, and the end is,
// bit for bit, that of a calm run.
#include <cstdio>
#include <map>
#include <random>
#include <regex>

#include <gtest/gtest.h>

#include "support/comment_drawing.hpp"
#include "support/kill_matrix.hpp"
#include "world/fake_world.hpp"

namespace rhizome::tests {
namespace {

using namespace std::chrono_literals;

constexpr Nanoseconds patience = 2s;  // of virtual time
constexpr RunLength length{.steps = 3, .evaluate_interval = 2, .evaluation_microbatches = 2};

struct Case {
    std::string name;
    std::int32_t workers;
    Arrangement arrangement;
};

void PrintTo(const Case& each, std::ostream* out) { *out << each.name; }

struct Trial {
    std::vector<SurvivorEnd> ends;
    std::vector<world::FakeOutcome> outcomes;
};

Trial run_trial(const Case& each, const world::FakeWorldConfig& config) {
    static const SmallOptions options = lively();
    static const model::Network network = network_of(options);
    static const MemoryText text = small_text();
    const Subject subject{network, text, options.rows, options.lanes};
    Trial trial;
    trial.ends.resize(static_cast<std::size_t>(each.workers));
    trial.outcomes = world::run_fake_world(config, [&](world::World& world) {
        trial.ends[world.self().index()] =
            run_survivor(world, subject, each.arrangement, length, patience);
    });
    return trial;
}

const WorkerEnd& calm() {
    static const WorkerEnd end = run_judge(lively(), length);
    return end;
}

struct Tally {
    int killed = 0;
    int trials = 0;
    int alone = 0;         // one survivor
    int with_digests = 0;  // of all chunks
    std::map<recover::Rung, int> rungs;
    int new_shapes = 0;                       // between steps
    std::map<std::int32_t, int> after_steps;  // repairs
    int attempts = 0;                         // beyond the first of a repair
    int without_loss = 0;                     // repairs
};

/// Whether anybody lived.
bool expect_calm_end(const Trial& trial, Tally& tally) {
    ++tally.trials;
    int survivors = 0;
    int with_digests = 0;
    for (std::size_t w = 0; w < trial.ends.size(); ++w) {
        SCOPED_TRACE("worker " + std::to_string(w));
        if (trial.outcomes[w].error) std::rethrow_exception(trial.outcomes[w].error);
        if (trial.outcomes[w].end == world::FakeEnd::killed) ++tally.killed;
        if (trial.outcomes[w].end != world::FakeEnd::returned) continue;
        const SurvivorEnd& end = trial.ends[w];
        ++survivors;
        EXPECT_EQ(end.end.status, CommStatus::ok);
        EXPECT_EQ(end.end.steps_done, length.steps);
        EXPECT_EQ(end.trace.losses, calm().trace.losses);
        EXPECT_EQ(end.trace.norms, calm().trace.norms);
        // The last member of all may have been told once more than one that was in the epoch
        // before.
        EXPECT_EQ(end.trace.evaluations, calm().trace.evaluations);
        std::map<std::string, std::string> digests;
        for (const auto& [name, hex] : calm().chunks) digests[name] = hex;
        for (const auto& [name, hex] : end.owned) EXPECT_EQ(hex, digests.at(name)) << name;
        if (!end.chunks.empty()) {
            ++with_digests;
            EXPECT_EQ(end.chunks, calm().chunks);
        }
        for (const engine::RepairRecord& repair : end.repairs) {
            if (repair.between_steps()) {
                EXPECT_TRUE(repair.lost.empty());
                ++tally.new_shapes;
                continue;
            }
            tally.without_loss += repair.lost.empty() ? 1 : 0;
            ++tally.rungs[repair.rung];
            ++tally.after_steps[repair.steps];
            tally.attempts += repair.attempts - 1;
        }
    }
    EXPECT_LE(with_digests, 1);  // none if the first member died after the last agreement
    tally.with_digests += with_digests;
    tally.alone += survivors == 1 ? 1 : 0;
    return survivors > 0;
}

class Repairs : public testing::TestWithParam<Case> {};

TEST_P(Repairs, AreNotNeededInACalmRun) {
    Tally tally;
    expect_calm_end(run_trial(GetParam(), {.workers = GetParam().workers, .seed = 7}), tally);
    EXPECT_EQ(tally.killed, 0);
    EXPECT_TRUE(tally.rungs.empty());
}

TEST_P(Repairs, OfOneLossAtAnyPointLeadToTheEndOfACalmRun) {
    const Case& each = GetParam();
    world::FakeWorldConfig config{.workers = each.workers, .seed = 7};
    const Trial undisturbed = run_trial(each, config);
    Tally tally;
    for (std::int32_t victim = 0; victim < each.workers; ++victim) {
        const std::int64_t calls = undisturbed.outcomes[static_cast<std::size_t>(victim)].calls;
        for (std::int64_t call = 0; call < calls; call += 1 + calls / 60) {
            SCOPED_TRACE("worker " + std::to_string(victim) + " dies at call " +
                         std::to_string(call));
            config.kills = {{.worker = WorkerId{victim}, .call = call}};
            const Trial found = run_trial(each, config);
            ASSERT_EQ(found.outcomes[static_cast<std::size_t>(victim)].end, world::FakeEnd::killed);
            expect_calm_end(found, tally);
            if (HasFailure()) return;
        }
    }
    EXPECT_EQ(tally.killed, tally.trials);
    EXPECT_EQ(tally.without_loss, 0);
    const std::size_t pipelines = each.arrangement.depths.size();
    const bool survives = each.arrangement.owners > 1;
    EXPECT_EQ(tally.rungs.count(recover::Rung::redo) > 0, survives && pipelines > 1);
    EXPECT_EQ(tally.new_shapes > 0, survives && pipelines == 2);
    if (survives) {
        EXPECT_EQ(tally.rungs.count(recover::Rung::state_file), 0U);
        for (std::int32_t step = 0; step < length.steps; ++step) {
            EXPECT_GT(tally.after_steps[step], 0) << step;
        }
    }
}

TEST_P(Repairs, OfManyLossesLeadToTheEndOfACalmRun) {
    const Case& each = GetParam();
    const Trial undisturbed = run_trial(each, {.workers = each.workers, .seed = 7});
    Tally tally;
    std::mt19937_64 random{3};
    for (std::uint64_t seed = 0; seed < 150; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        world::FakeWorldConfig config{.workers = each.workers, .seed = seed};
        std::vector<std::int32_t> victims;
        for (std::int32_t w = 0; w < each.workers; ++w) victims.push_back(w);
        std::shuffle(victims.begin(), victims.end(), random);
        victims.resize(1 + random() % static_cast<std::uint64_t>(each.workers - 1));
        const double point = static_cast<double>(random() % 100) / 100;
        for (const std::int32_t victim : victims) {
            const auto calls =
                static_cast<double>(undisturbed.outcomes[static_cast<std::size_t>(victim)].calls);
            config.kills.push_back({.worker = WorkerId{victim},
                                    .call = static_cast<std::int64_t>(point * calls),
                                    .after = std::chrono::microseconds{random() % 400}});
        }
        EXPECT_TRUE(expect_calm_end(run_trial(each, config), tally));
        if (HasFailure()) return;
    }
    EXPECT_GT(tally.killed, tally.trials / 2);
    EXPECT_EQ(tally.without_loss, 0);
    EXPECT_GT(tally.with_digests, tally.trials / 2);
    EXPECT_GT(tally.alone, 0);
    if (each.workers > 2) {
        EXPECT_GT(tally.attempts, 0);
    }
}

// --- rung 2 ---

TEST(Redo, ComputesOnlyTheLanesThatAreMissing) {
    const Arrangement arrangement{.depths = {2, 2}};
    const SmallOptions options = lively();
    const model::Network network = network_of(options);
    const MemoryText text = small_text();
    const Subject subject{network, text, options.rows, options.lanes};
    const std::int32_t all = options.lanes.microbatches;
    std::vector<SurvivorEnd> ends(4);
    std::vector<std::vector<std::int32_t>> forwards(4);  // by worker: of every attempt at a step
    const auto outcomes =
        world::run_fake_world({.workers = 4, .seed = 1}, [&](world::World& world) {
            const WorkerId self = world.self();
            auto& mine = forwards[self.index()];
            ends[self.index()] = run_survivor(
                world, subject, arrangement, length, patience, [&](const engine::Point& point) {
                    const bool sums = point.kind == schedule::Kind::receive_sum;
                    if (self == WorkerId{3} && point.step == 1 && sums) world::die_in(world);
                    if (point.phase == engine::Phase::step) {
                        if (point.index == 0 && point.kind == schedule::Kind::forward) {
                            mine.push_back(0);
                        }
                        if (point.kind == schedule::Kind::forward) ++mine.back();
                    }
                });
        });
    EXPECT_EQ(outcomes[3].end, world::FakeEnd::killed);
    for (std::size_t w = 0; w < 2; ++w) {
        SCOPED_TRACE("worker " + std::to_string(w));
        ASSERT_FALSE(ends[w].repairs.empty());
        const engine::RepairRecord& repair = ends[w].repairs.front();
        EXPECT_EQ(repair.rung, recover::Rung::redo);
        EXPECT_EQ(repair.steps, 1);
        ASSERT_GT(repair.lanes_kept, 0);
        // Step 0, the step that breaks off, and its rest.
        ASSERT_GE(forwards[w].size(), 3U);
        EXPECT_EQ(forwards[w][2], all - repair.lanes_kept * options.lanes.length());
        EXPECT_EQ(ends[w].trace.losses, calm().trace.losses);
        // Two workers of the broken pipeline computed nothing in it; then all three do.
        ASSERT_EQ(ends[w].repairs.size(), 2U);
        EXPECT_TRUE(ends[w].repairs.back().between_steps());
        EXPECT_EQ(ends[w].repairs.back().steps, 2);
    }
}

// --- a world that can open few epochs ---

/// Five workers. Worker 4 is lost in the first step and worker 3 in the repair; then one epoch is
/// left of three, and the world is renewed. `victim` dies at the n-th place after the first step.
class FewEpochs : public testing::Test {
  protected:
    static constexpr std::int32_t workers = 5;

    Trial run(std::int32_t victim, std::int64_t place, std::int32_t renewals_failing = 0) {
        const Arrangement arrangement{.depths = {2, 2, 1}, .owners = workers};
        const Subject subject{network_, text_, options_.rows, options_.lanes};
        Trial trial;
        trial.ends.resize(workers);
        passed_.assign(workers, 0);
        renew_places_.assign(workers, {});
        const auto dies = [&](WorkerId self, const engine::Point& point) {
            if (self == WorkerId{4} && point.kind == schedule::Kind::forward) return true;
            if (self == WorkerId{3} && point.phase == engine::Phase::adopt) return true;
            if (point.step < 1) return false;
            if (point.phase == engine::Phase::renew || point.phase == engine::Phase::renewing) {
                renew_places_[self.index()].push_back(passed_[self.index()]);
            }
            return passed_[self.index()]++ == place && self.value() == victim;
        };
        trial.outcomes = world::run_fake_world(
            {.workers = workers, .seed = 1, .spares = 3, .renewals_failing = renewals_failing},
            [&](world::World& world) {
                trial.ends[world.self().index()] = run_survivor(
                    world, subject, arrangement, length, patience, [&](const engine::Point& point) {
                        if (dies(world.self(), point)) world::die_in(world);
                    });
            });
        return trial;
    }

    std::vector<std::int64_t> passed_;  // places after the first step, by worker
    std::vector<std::vector<std::int64_t>> renew_places_;

  private:
    const SmallOptions options_ = lively();
    const model::Network network_ = network_of(options_);
    const MemoryText text_ = small_text();
};

TEST_F(FewEpochs, AreRenewedInACalmMoment) {
    Tally tally;
    const Trial trial = run(-1, 0);
    expect_calm_end(trial, tally);
    EXPECT_EQ(tally.killed, 2);
    for (std::size_t w = 0; w < 3; ++w) {
        EXPECT_EQ(trial.ends[w].renewals, std::vector{1});
        EXPECT_EQ(renew_places_[w].size(), 2U);
    }
}

TEST_F(FewEpochs, OneOfWhichAFailedRenewalTakes) {
    Tally tally;
    const Trial trial = run(-1, 0, 1);
    EXPECT_TRUE(expect_calm_end(trial, tally));
    EXPECT_EQ(tally.killed, 2);
    for (std::size_t w = 0; w < 3; ++w) {
        EXPECT_EQ(trial.ends[w].renewals, std::vector{2});
        EXPECT_EQ(renew_places_[w].size(), 4U);
        EXPECT_EQ(trial.ends[w].repairs.back().noticed, CommStatus::revoked);
    }
    EXPECT_EQ(tally.without_loss, 3);  // one, which each of three tells
}

TEST_F(FewEpochs, AreRenewedWhoeverDiesMeanwhile) {
    (void)run(-1, 0);
    const auto calm_places = passed_;
    Tally tally;
    int again = 0;  // losses that ended a renewal
    for (std::int32_t victim = 0; victim < 3; ++victim) {
        const std::int64_t places = calm_places[static_cast<std::size_t>(victim)];
        for (std::int64_t place = 0; place < places; ++place) {
            SCOPED_TRACE("worker " + std::to_string(victim) + " dies at place " +
                         std::to_string(place));
            const Trial trial = run(victim, place);
            expect_calm_end(trial, tally);
            if (HasFailure()) return;
            const std::size_t living = victim == 0 ? 1 : 0;
            again += renew_places_[living].size() > 2 ? 1 : 0;
        }
    }
    EXPECT_EQ(tally.killed, 3 * tally.trials);
    EXPECT_EQ(tally.without_loss, 0);
    EXPECT_GE(again, 3);
}

// --- the drawing in ARCHITECTURE.md ---

std::string drawing() {
    const std::string text = read_source("../ARCHITECTURE.md");
    const std::size_t begin = text.find("## A recovery");
    EXPECT_NE(begin, std::string::npos);
    return text.substr(begin, text.find("\n## ", begin + 1) - begin);
}

/// Phases of repairs that the workers passed after worker 1 was lost, by worker.
std::vector<std::vector<std::string>> phases_after_a_loss(std::int32_t owners) {
    const Arrangement arrangement{.depths = {3}, .owners = owners};
    const SmallOptions options = lively();
    const model::Network network = network_of(options);
    const MemoryText text = small_text();
    const Subject subject{network, text, options.rows, options.lanes};
    std::vector<std::vector<std::string>> passed(3);
    const auto outcomes =
        world::run_fake_world({.workers = 3, .seed = 1}, [&](world::World& world) {
            const WorkerId self = world.self();
            (void)run_survivor(
                world, subject, arrangement, length, patience, [&](const engine::Point& point) {
                    if (self == WorkerId{1} && point.kind == schedule::Kind::commit) {
                        world::die_in(world);
                    }
                    if (point.phase < engine::Phase::open) return;
                    passed[self.index()].emplace_back(
                        engine::phase_names[static_cast<std::size_t>(point.phase)]);
                });
        });
    EXPECT_EQ(outcomes[1].end, world::FakeEnd::killed);
    return passed;
}

TEST(RecoveryDrawing, HasThePhasesOfARepairInTheirOrder) {
    std::vector<std::string> drawn;
    const std::string text = drawing();
    const std::regex word{R"(^ \[(\w+)\])", std::regex::multiline};
    for (auto it = std::sregex_iterator(text.begin(), text.end(), word);
         it != std::sregex_iterator(); ++it) {
        drawn.push_back((*it)[1]);
    }
    const auto passed = phases_after_a_loss(2);
    EXPECT_EQ(passed[0], drawn);
    EXPECT_EQ(passed[2], drawn);
}

TEST(RecoveryDrawing, HasTheWayByAStateFile) {
    EXPECT_NE(drawing().find("6 state file  [load]"), std::string::npos);
    const auto passed = phases_after_a_loss(1);
    EXPECT_EQ(passed[0], (std::vector<std::string>{"open", "report", "decide", "load"}));
    EXPECT_EQ(passed[2], passed[0]);
}

TEST(RecoveryDrawing, NamesEveryRung) {
    for (const auto rung : {recover::Rung::redo, recover::Rung::replan, recover::Rung::state_file,
                            recover::Rung::park}) {
        EXPECT_NE(drawing().find(recover::name_of(rung) + " "), std::string::npos);
    }
}

// tests/slow/engine_kill_matrix_test.cpp leaves no place out.
TEST(KillMatrix, HoldsInASample) {
    Matrix matrix;
    for (const Layout& layout : all_layouts()) matrix.every_place(layout, 13);
    for (const Layout& layout : small_layouts()) matrix.pairs(layout, 1999);
    matrix.triples(300, 2);
    std::printf("%s\n", matrix.tally().text().c_str());
    EXPECT_GT(matrix.tally().deaths, 500);
    EXPECT_GT(matrix.tally().further_attempts, 0);
}

TEST(KillMatrix, HoldsInASampleOfRunsThatSave) {
    Matrix matrix{Saves::every_step};
    std::int64_t stride = 121;
    for (const Layout& layout : all_layouts()) matrix.every_place(layout, stride++);
    matrix.triples(12, 3);
    std::printf("%s\n", matrix.tally().text().c_str());
    EXPECT_GT(matrix.tally().deaths, 100);
    EXPECT_GT(matrix.tally().new_shapes, 0);
}

// The spare is to take the place of the first worker, and is lost in that repair. Then who had
// already let go of its stages has no lanes any more, and who had not keeps them.
TEST(KillMatrix, HoldsWhereARepairBreaksOffThatSomeHaveBegun) {
    Matrix matrix;
    const Layout layout{4, {.depths = {1, 1, 1}}};
    const std::int64_t places = matrix.places(layout)[3];
    for (std::int64_t place = 0; place < places; ++place) {
        matrix.expect_calm_end(layout, {{0, 0}, {3, place}}, 7);
    }
    EXPECT_GT(matrix.tally().further_attempts, 0);
    EXPECT_GT(matrix.tally().repairs.at(recover::Rung::redo), 0);
}

TEST(KillMatrix, HoldsInASampleOfTheContractsLayouts) {
    std::int64_t stride = 211;
    for (const auto style : {schedule::Style::one_f_one_b, schedule::Style::zero_bubble_h1,
                             schedule::Style::zero_bubble_h2}) {
        expect_calm_ends_of_contract(style, stride++);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Repairs,
    testing::Values(
        Case{"three stages", 3, {.depths = {3}}},
        Case{"two pipelines of two", 4, {.depths = {2, 2}}},
        Case{"uneven, zero bubble, one owner",
             4,
             {.depths = {2, 1}, .style = schedule::Style::zero_bubble_h1, .owners = 1}},
        Case{"interleaved", 2, {.depths = {2}, .parts = 2, .style = schedule::Style::interleaved}},
        Case{"three replicas, all own all", 3, {.depths = {1, 1, 1}, .owners = 3}}));

}  // namespace
}  // namespace rhizome::tests
