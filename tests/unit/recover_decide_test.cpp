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

    [[nodiscard]] Report report(WorkerId worker) const {
        Report report{.worker = worker, .steps = 3};
        for (const OwnedChunk& each : owners.chunks) {
            report.owns.push_back(each.is_owned_by(worker));
        }
        report.holds.resize(layers);
        for (const PipelineShape& pipeline : shape.pipelines) {
            for (const StageShape& stage : pipeline.stages) {
                if (stage.worker != worker) continue;
                for (std::int32_t l = stage.layers.first; l < stage.layers.last; ++l) {
                    report.holds[static_cast<std::size_t>(l)] = true;
                }
            }
        }
        return report;
    }

    [[nodiscard]] Survey without(const std::set<std::int32_t>& lost) const {
        Survey survey;
        for (const WorkerId worker : shape.workers) {
            if (!lost.contains(worker.value())) survey.reports.push_back(report(worker));
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
            const Decision decision = decide(survey, team.facts);
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
    const Decision before = decide(survey, team.facts);
    for (Report& report : survey.reports) report.holds.assign(layers, false);
    const Decision after = decide(survey, team.facts);
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
    const Decision decision = decide(team.without({1}), team.facts);
    EXPECT_EQ(decision.rung, Rung::replan);
    EXPECT_TRUE(decision.moves.empty());
    EXPECT_EQ(decision.move_s, 0);
}

TEST(Decide, TakesFromSeveralAtOnce) {
    const Team team{6};
    const Decision decision = decide(team.without({5}), team.facts);
    std::set<WorkerId> sources;
    for (const Move& move : decision.moves) sources.insert(move.from);
    EXPECT_GT(sources.size(), 1U);
    EXPECT_GT(decision.move_s, 0);
}

TEST(Decide, SaysWhy) {
    const Team team{4};
    EXPECT_THAT(decide(team.without({0}), team.facts).reason,
                testing::HasSubstr("every chunk has an owner left; 1 pipeline of 3 workers"));
    Team lonely{4};
    lonely.owners = plan::assign_owners(lonely.table, lonely.shape,
                                        {plan::FailureDomain{0}, plan::FailureDomain{1},
                                         plan::FailureDomain{2}, plan::FailureDomain{3}},
                                        1);
    EXPECT_THAT(decide(lonely.without({0}), lonely.facts).reason,
                testing::HasSubstr("nobody is left who owns layer."));
    EXPECT_EQ(name_of(Rung::replan), "3 re-plan");
}

TEST(Decide, IsTheSameForAllWhoHaveTheSameSurvey) {
    const Team team{5};
    const Decision one = decide(team.without({2}), team.facts);
    const Decision other = decide(team.without({2}), team.facts);
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
    const Decision decision = decide(survey, team.facts);
    EXPECT_EQ(decision.rung, Rung::replan);
    EXPECT_EQ(decision.steps, 3);
    expect_complete(decision, survey, team);
}

}  // namespace
}  // namespace rhizome::recover
