// What to do after a loss: from who has what to a shape, a map and moves that lead there.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/ownership.hpp"
#include "recover/decide.hpp"

namespace rhizome::recover {
namespace {

constexpr std::int32_t layers = 6;

/// One tensor a layer, the first and the last tied.
LayerTable make_table() {
    LayerTable table{.layers = {}, .chunk_elements = 8};
    for (std::int32_t l = 0; l < layers; ++l) {
        table.layers.push_back({.name = "layer." + std::to_string(l),
                                .parameters = {{.spec = {"w", {20 + 4 * l}}}},
                                .outputs = {},
                                .fields = {},
                                .costs = {}});
    }
    table.layers.back().parameters = {{.spec = {"w", {20}}, .tied_to = TensorRef{LayerId{0}, 0}},
                                      {.spec = {"b", {5}}}};
    return table;
}

struct Team {
    LayerTable table = make_table();
    Facts facts{.table = table,
                .manner = {.lanes = {8, 4},
                           .layers = std::vector<plan::LayerLoad>(layers, {1.0}),
                           .depth_min = 2},
                .redundancy = 2,
                .link_bytes_per_s = 1000};
    RunShape shape;
    OwnershipMap owners;

    explicit Team(std::int32_t workers) : shape{candidates(workers, facts.manner).front().shape} {
        std::vector<plan::FailureDomain> domains;
        for (std::int32_t w = 0; w < workers; ++w) domains.emplace_back(w);
        owners = plan::assign_owners(table, shape, domains, facts.redundancy);
    }

    [[nodiscard]] InUse in_use() const {
        return {.shape = shape, .style = schedule::Style::one_f_one_b};
    }

    /// In a step of which its pipeline has done some lanes.
    [[nodiscard]] Report report(WorkerId worker, const std::set<std::int32_t>& done) const {
        Report report{.worker = worker, .steps = 3};
        for (const OwnedChunk& each : owners.chunks) {
            report.owns.push_back(each.is_owned_by(worker));
        }
        report.holds.resize(layers);
        report.lanes.resize(static_cast<std::size_t>(facts.manner.lanes.lanes));
        for (const PipelineShape& pipeline : shape.pipelines) {
            for (const StageShape& stage : pipeline.stages) {
                if (stage.worker != worker) continue;
                for (std::int32_t lane = pipeline.lanes.first; lane < pipeline.lanes.last; ++lane) {
                    report.lanes[static_cast<std::size_t>(lane)] = done.contains(lane);
                }
                for (std::int32_t l = stage.layers.first; l < stage.layers.last; ++l) {
                    report.holds[static_cast<std::size_t>(l)] = true;
                }
            }
        }
        return report;
    }

    [[nodiscard]] Survey without(const std::set<std::int32_t>& lost,
                                 const std::set<std::int32_t>& done = {}) const {
        Survey survey;
        for (const WorkerId worker : shape.workers) {
            if (!lost.contains(worker.value())) survey.reports.push_back(report(worker, done));
        }
        return survey;
    }
};

std::vector<LayerId> uses(const LayerTable& table, ChunkRef chunk) {
    std::vector<LayerId> found;
    for (const TensorRef use : table.uses_of(chunk.tensor)) found.push_back(use.layer);
    return found;
}

bool holds(const Report& report, const LayerTable& table, ChunkRef chunk) {
    for (const LayerId layer : uses(table, chunk)) {
        if (report.holds[layer.index()]) return true;
    }
    return false;
}

bool computes(const RunShape& shape, WorkerId worker, const LayerTable& table, ChunkRef chunk) {
    for (const PipelineShape& pipeline : shape.pipelines) {
        for (const StageShape& stage : pipeline.stages) {
            if (stage.worker != worker) continue;
            for (const LayerId layer : uses(table, chunk)) {
                if (stage.layers.contains(layer)) return true;
            }
        }
    }
    return false;
}

/// Everybody has what it needs after the moves, from somebody who has it; nothing moves twice.
void expect_complete(const Decision& decision, const Survey& survey, const Team& team) {
    EXPECT_EQ(find_fault(decision.shape, layers), std::nullopt);
    EXPECT_EQ(decision.kept.empty(), decision.rung != Rung::redo);
    ASSERT_EQ(decision.owners.chunks.size(), team.owners.chunks.size());
    std::map<WorkerId, const Report*> reports;
    for (const Report& report : survey.reports) reports[report.worker] = &report;
    std::set<std::tuple<WorkerId, std::size_t, bool>> got;  // worker, chunk, moments
    for (const Move& move : decision.moves) {
        ASSERT_TRUE(reports.contains(move.from) && reports.contains(move.to));
        EXPECT_NE(move.from, move.to);
        const ChunkRef chunk = decision.owners.chunks[move.chunk].chunk;
        const Report& from = *reports[move.from];
        EXPECT_TRUE(from.owns[move.chunk] || (!move.moments && holds(from, team.table, chunk)));
        if (move.parameters) {
            EXPECT_TRUE(got.emplace(move.to, move.chunk, false).second);
        }
        if (move.moments) {
            EXPECT_TRUE(got.emplace(move.to, move.chunk, true).second);
        }
    }
    std::size_t needed = 0;
    const auto redundancy = std::min(survey.reports.size(), std::size_t{2});
    for (std::size_t c = 0; c < decision.owners.chunks.size(); ++c) {
        const OwnedChunk& each = decision.owners.chunks[c];
        EXPECT_EQ(each.chunk, team.owners.chunks[c].chunk);
        EXPECT_EQ(each.owners.size(), redundancy);
        for (const Report& report : survey.reports) {
            const bool owns = each.is_owned_by(report.worker);
            const bool reads = computes(decision.shape, report.worker, team.table, each.chunk);
            const bool has = report.owns[c] || holds(report, team.table, each.chunk);
            if (owns && !report.owns[c]) {
                ++needed;
                EXPECT_TRUE(got.contains({report.worker, c, true}));
            }
            if ((owns || reads) && !has) {
                ++needed;
                EXPECT_TRUE(got.contains({report.worker, c, false}));
            }
        }
    }
    EXPECT_EQ(needed, got.size());
}

TEST(Decide, GivesEverybodyWhatItNeedsAfterAnyLosses) {
    int replans = 0;
    int files = 0;
    for (std::int32_t workers = 2; workers <= 6; ++workers) {
        const Team team{workers};
        for (unsigned lost = 1; lost + 1 < 1U << workers; ++lost) {
            SCOPED_TRACE(std::to_string(workers) + " workers, lost " + std::to_string(lost));
            std::set<std::int32_t> gone;
            for (std::int32_t w = 0; w < workers; ++w) {
                if ((lost >> w & 1) != 0) gone.insert(w);
            }
            const Survey survey = team.without(gone);
            const bool orphans = std::any_of(
                team.owners.chunks.begin(), team.owners.chunks.end(), [&](const auto& each) {
                    return std::all_of(each.owners.begin(), each.owners.end(), [&](WorkerId owner) {
                        return gone.contains(owner.value());
                    });
                });
            const Decision decision = decide(survey, team.facts, team.in_use());
            EXPECT_EQ(decision.rung, orphans ? Rung::state_file : Rung::replan);
            if (orphans) {
                ++files;
                EXPECT_TRUE(decision.moves.empty());
                EXPECT_EQ(find_fault(decision.shape, layers), std::nullopt);
                continue;
            }
            ++replans;
            EXPECT_EQ(decision.steps, 3);
            expect_complete(decision, survey, team);
        }
    }
    EXPECT_GT(replans, 20);
    EXPECT_GT(files, 5);
}

TEST(Decide, DoesNotTrustParametersThatMayBeOld) {
    const Team team{4};
    Survey survey = team.without({3});
    const Decision before = decide(survey, team.facts, team.in_use());
    for (Report& report : survey.reports) report.holds.assign(layers, false);
    const Decision after = decide(survey, team.facts, team.in_use());
    expect_complete(after, survey, team);
    EXPECT_GT(bytes_of(after.moves, team.table, after.owners),
              bytes_of(before.moves, team.table, before.owners));
}

TEST(Decide, MovesNothingThatIsInPlace) {
    // One of three replicas is lost: two owners of each chunk and all holders but it remain.
    Team team{3};
    team.facts.manner.depth_min = 1;
    team.facts.manner.lanes = {6, 6};
    team.shape = candidates(3, team.facts.manner).front().shape;
    ASSERT_EQ(team.shape.pipelines.size(), 3U);
    team.facts.redundancy = 0;
    team.owners = plan::assign_owners(
        team.table, team.shape,
        {plan::FailureDomain{0}, plan::FailureDomain{1}, plan::FailureDomain{2}}, 3);
    const Decision decision = decide(team.without({1}), team.facts, team.in_use());
    EXPECT_EQ(decision.rung, Rung::replan);
    EXPECT_TRUE(decision.moves.empty());
    EXPECT_EQ(decision.move_s, 0);
}

TEST(Decide, TakesFromSeveralAtOnce) {
    const Team team{6};
    const Decision decision = decide(team.without({5}), team.facts, team.in_use());
    std::set<WorkerId> sources;
    for (const Move& move : decision.moves) sources.insert(move.from);
    EXPECT_GT(sources.size(), 1U);
    EXPECT_GT(decision.move_s, 0);
}

TEST(Decide, SaysWhy) {
    const Team team{4};
    EXPECT_THAT(decide(team.without({0}), team.facts, team.in_use()).reason,
                testing::HasSubstr("every chunk has an owner left; 1 pipeline of 3 workers"));
    Team lonely{4};
    lonely.owners = plan::assign_owners(lonely.table, lonely.shape,
                                        {plan::FailureDomain{0}, plan::FailureDomain{1},
                                         plan::FailureDomain{2}, plan::FailureDomain{3}},
                                        1);
    EXPECT_THAT(decide(lonely.without({0}), lonely.facts, lonely.in_use()).reason,
                testing::HasSubstr("nobody is left who owns layer."));
    EXPECT_EQ(name_of(Rung::replan), "3 re-plan");
}

TEST(Decide, IsTheSameForAllWhoHaveTheSameSurvey) {
    const Team team{5};
    const Decision one = decide(team.without({2}), team.facts, team.in_use());
    const Decision other = decide(team.without({2}), team.facts, team.in_use());
    EXPECT_EQ(one.shape, other.shape);
    EXPECT_EQ(one.owners, other.owners);
    EXPECT_EQ(one.moves, other.moves);
    EXPECT_EQ(one.reason, other.reason);
}

TEST(Decide, CountsThoseWithoutStateForNothing) {
    const Team team{4};
    Survey survey = team.without({});
    // As after a return to a state file that broke off for one of them.
    survey.reports[1].steps = 0;
    survey.reports[1].owns.assign(team.owners.chunks.size(), false);
    survey.reports[1].holds.assign(layers, false);
    const Decision decision = decide(survey, team.facts, team.in_use());
    EXPECT_EQ(decision.rung, Rung::replan);
    EXPECT_EQ(decision.steps, 3);
    expect_complete(decision, survey, team);
}

std::vector<Lane> lanes_of(std::initializer_list<std::int32_t> numbers) {
    std::vector<Lane> lanes;
    for (const std::int32_t number : numbers) lanes.emplace_back(number);
    return lanes;
}

/// Pipelines of workers 0 and 1, 2 and 3, 4 and 5, with lanes 0 and 1, 2, 3.
Team three_pipelines() {
    Team team{6};
    for (const Candidate& candidate : candidates(6, team.facts.manner)) {
        if (candidate.shape.pipelines.size() == 3) team.shape = candidate.shape;
    }
    team.owners = plan::assign_owners(
        team.table, team.shape,
        {plan::FailureDomain{0}, plan::FailureDomain{1}, plan::FailureDomain{2},
         plan::FailureDomain{3}, plan::FailureDomain{4}, plan::FailureDomain{5}},
        2);
    EXPECT_EQ(team.shape.pipelines.size(), 3U);
    EXPECT_EQ(team.shape.pipelines[0].lanes, (LaneRange{0, 2}));
    return team;
}

TEST(Redo, KeepsWhatPipelinesThatLostNobodyHaveDone) {
    const Team team = three_pipelines();
    const Survey survey = team.without({2}, {0, 2, 3});
    const Decision decision = decide(survey, team.facts, team.in_use());
    ASSERT_EQ(decision.rung, Rung::redo);
    EXPECT_EQ(decision.kept, lanes_of({0, 3}));
    // Lane 1 is still the first one's to do, lane 2 goes to the one that has nothing left.
    ASSERT_EQ(decision.shape.pipelines.size(), 2U);
    EXPECT_EQ(decision.shape.pipelines[0].stages, team.shape.pipelines[0].stages);
    EXPECT_EQ(decision.shape.pipelines[0].lanes, (LaneRange{0, 2}));
    EXPECT_EQ(decision.shape.pipelines[1].stages, team.shape.pipelines[2].stages);
    EXPECT_EQ(decision.shape.pipelines[1].lanes, (LaneRange{2, 4}));
    EXPECT_LT(decision.rest_s, decision.step_s);
    EXPECT_THAT(decision.reason,
                testing::HasSubstr("2 of 4 lanes kept, the others by 2 pipelines"));
    expect_complete(decision, survey, team);
}

TEST(Redo, KeepsNoLaneThatAStageHasNotDone) {
    const Team team = three_pipelines();
    Survey survey = team.without({2}, {0, 1, 3});
    const auto kept = [&] { return keep_lanes(survey, team.in_use(), team.facts.manner)->kept; };
    survey.reports[0].lanes[1] = false;
    // Worker 1 has added lane 1 to lane 0 already, so lane 0 alone is to be had nowhere.
    EXPECT_EQ(kept(), lanes_of({3}));
    survey.reports[1].lanes[1] = false;
    EXPECT_EQ(kept(), lanes_of({0, 3}));
}

TEST(Redo, IsNotForAStepThatANewShapeDoesSooner) {
    const Team team = three_pipelines();
    // Two of three lanes' work would be one pipeline's, and two do all of it as soon.
    const Survey survey = team.without({2}, {3});
    const Decision decision = decide(survey, team.facts, team.in_use());
    EXPECT_EQ(decision.rung, Rung::replan);
    EXPECT_EQ(decision.rest_s, decision.step_s);
    expect_complete(decision, survey, team);
}

TEST(Redo, GivesEverybodyWhatItNeedsWhateverIsDone) {
    int redone = 0;
    const Team team = three_pipelines();
    for (std::int32_t lost = 0; lost < 6; ++lost) {
        for (unsigned lanes = 0; lanes < 16; ++lanes) {
            std::set<std::int32_t> done;
            for (std::int32_t lane = 0; lane < 4; ++lane) {
                if ((lanes >> lane & 1) != 0) done.insert(lane);
            }
            const Survey survey = team.without({lost}, done);
            const Decision decision = decide(survey, team.facts, team.in_use());
            redone += decision.rung == Rung::redo ? 1 : 0;
            for (const Lane lane : decision.kept) EXPECT_TRUE(done.contains(lane.value()));
            expect_complete(decision, survey, team);
        }
    }
    EXPECT_GT(redone, 20);
}

TEST(BetweenSteps, ABetterShapeIsTakenIfItPays) {
    Team team{6};
    ASSERT_EQ(team.shape.pipelines.size(), 2U);
    const Decision rest = decide(team.without({0}, {2, 3}), team.facts, team.in_use());
    ASSERT_EQ(rest.rung, Rung::redo);
    ASSERT_EQ(rest.shape.pipelines.size(), 1U);  // and two workers who compute nothing
    team.shape = rest.shape;
    team.owners = rest.owners;
    const Survey survey = team.without({});
    const auto better = decide_between_steps(survey, team.facts, team.in_use(), 1000);
    ASSERT_TRUE(better.has_value());
    EXPECT_EQ(better->rung, Rung::replan);
    EXPECT_LT(better->step_s, rest.step_s);
    EXPECT_THAT(better->reason, testing::HasSubstr("% of the time that it takes now"));
    expect_complete(*better, survey, team);

    EXPECT_FALSE(decide_between_steps(survey, team.facts, team.in_use(), 0).has_value());
    team.shape = better->shape;
    team.owners = better->owners;
    EXPECT_FALSE(
        decide_between_steps(team.without({}), team.facts, team.in_use(), 1000).has_value());
}

}  // namespace
}  // namespace rhizome::recover
