// What a plan makes of a layout: recomputation where it is asked for, and an evaluation by the same
// stages.
#include "engine/run_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/engine_run.hpp"

namespace rhizome::tests {
namespace {

using engine::Recompute;
using engine::RunPlan;
using schedule::Instruction;
using schedule::Kind;
using testing::ElementsAre;

const SmallOptions options{.blocks = 5};

RunPlan plan_on(std::int32_t workers, const Arrangement& arrangement, LaneShape lanes,
                std::int32_t evaluation_microbatches) {
    std::vector<WorkerId> all;
    for (std::int32_t w = 0; w < workers; ++w) all.emplace_back(w);
    return plan_of(arrangement, network_of(options).table(), all, lanes, evaluation_microbatches);
}

std::int64_t count(const std::vector<Instruction>& list, Kind kind) {
    return std::count_if(list.begin(), list.end(),
                         [&](const Instruction& each) { return each.kind == kind; });
}

/// Lanes of each pipeline of the evaluation.
std::vector<std::int32_t> evaluation_lanes(const RunPlan& plan) {
    std::vector<std::int32_t> lanes;
    for (const PipelineShape& each : plan.evaluation->shape.pipelines) {
        lanes.push_back(each.lanes.size());
    }
    return lanes;
}

TEST(RunPlan, RecomputesBeforeEachBackwardIfAsked) {
    for (const auto style : {schedule::Style::one_f_one_b, schedule::Style::zero_bubble_h1}) {
        Arrangement arrangement{.depths = {2}, .style = style};
        for (const auto& list : plan_on(2, arrangement, {6, 3}, 0).step.programs) {
            EXPECT_EQ(count(list, Kind::recompute), 0);
        }
        arrangement.recompute = Recompute::all;
        for (const auto& list : plan_on(2, arrangement, {6, 3}, 0).step.programs) {
            EXPECT_EQ(count(list, Kind::forward), 6);
            EXPECT_EQ(count(list, Kind::recompute), 6);
        }
    }
}

TEST(RunPlan, NeedsLessMemoryWhereItRecomputes) {
    Arrangement arrangement{.depths = {2}, .style = schedule::Style::gpipe};
    const auto held = [&](Recompute recompute) {
        arrangement.recompute = recompute;
        return engine::Assignment::plan_memory(network_of(options), small_text().fields(),
                                               plan_on(2, arrangement, {6, 3}, 0), WorkerId{1}, 2)
            .held;
    };
    EXPECT_LT(held(Recompute::all), 2 * held(Recompute::none) / 3);
}

TEST(RunPlan, EvaluatesByTheSameStages) {
    const RunPlan plan = plan_on(4, {.depths = {2, 1}}, {6, 3}, 4);
    ASSERT_EQ(plan.evaluation->shape.pipelines.size(), 2U);
    for (std::size_t p = 0; p < 2; ++p) {
        EXPECT_EQ(plan.evaluation->shape.pipelines[p].stages, plan.shape.pipelines[p].stages);
    }
    EXPECT_EQ(plan.evaluation->shape.workers, plan.shape.workers);
    EXPECT_EQ(plan.evaluation->shape.lanes, LaneShape(4, 4));
}

TEST(RunPlan, SharesAnEvaluationLikeASteps) {
    // A pipeline of twice the depth has twice the lanes, whatever their number.
    const RunPlan plan = plan_on(6, {.depths = {4, 2}}, {6, 6}, 9);
    ASSERT_EQ(plan.shape.pipelines[0].lanes, (LaneRange{0, 4}));
    ASSERT_EQ(plan.shape.pipelines[1].lanes, (LaneRange{4, 6}));
    EXPECT_THAT(evaluation_lanes(plan), ElementsAre(6, 3));
}

TEST(RunPlan, LeavesPipelinesOutThatHaveNothingToEvaluate) {
    const RunPlan plan = plan_on(3, {.depths = {1, 1, 1}}, {3, 3}, 2);
    EXPECT_THAT(evaluation_lanes(plan), ElementsAre(1, 1));
    EXPECT_EQ(plan.evaluation->shape.workers.size(), 3U);
    EXPECT_EQ(count(plan.evaluation->programs[2], Kind::forward), 0);
    EXPECT_EQ(count(plan.evaluation->programs[2], Kind::receive_parts), 2);
}

TEST(RunPlan, HasNoEvaluationOfNothing) { EXPECT_FALSE(plan_on(1, {}, {3, 3}, 0).evaluation); }

}  // namespace
}  // namespace rhizome::tests
