// Which shapes a number of survivors can take.
#include <gtest/gtest.h>

#include "recover/shapes.hpp"

namespace rhizome::recover {
namespace {

Manner manner_of(std::int32_t layers, LaneShape lanes, std::int32_t depth_min = 1) {
    return {.lanes = lanes,
            .layers = std::vector<plan::LayerLoad>(static_cast<std::size_t>(layers), {1.0}),
            .depth_min = depth_min};
}

std::int32_t layers_in(const Manner& manner) {
    return static_cast<std::int32_t>(manner.layers.size());
}

TEST(Candidates, AreFaultlessShapesInTheOrderOfTheirSpeed) {
    for (std::int32_t workers = 1; workers <= 12; ++workers) {
        for (const std::int32_t layers : {1, 3, 8}) {
            for (const std::int32_t depth_min : {1, 2, 4}) {
                SCOPED_TRACE(std::to_string(workers) + " workers, " + std::to_string(layers) +
                             " layers, depth " + std::to_string(depth_min));
                const Manner manner = manner_of(layers, {8, 4}, depth_min);
                const auto found = candidates(workers, manner);
                ASSERT_FALSE(found.empty());
                double last = 0;
                for (const Candidate& each : found) {
                    EXPECT_EQ(find_fault(each.shape, layers_in(manner)), std::nullopt);
                    EXPECT_EQ(each.shape.workers.size(), static_cast<std::size_t>(workers));
                    EXPECT_GE(each.step_s, last);
                    last = each.step_s;
                    for (const PipelineShape& pipeline : each.shape.pipelines) {
                        EXPECT_GE(static_cast<std::int32_t>(pipeline.stages.size()),
                                  std::min({depth_min, workers, layers}));
                    }
                }
            }
        }
    }
}

TEST(Candidates, LeaveNobodyIdleUnlessThatIsFaster) {
    // Three workers for four equal layers and two lanes: 2 + 1 is as slow as its one; in a row of
    // three the slowest has two layers. Two pipelines of one each, with a spare, would be slower.
    const Manner manner = manner_of(4, {8, 2});
    const auto found = candidates(3, manner);
    EXPECT_EQ(found.front().name, "2 pipelines, 1 of 2 workers and 1 of 1");
    // The pipeline of two is as fast as two workers can be, and gets the lanes for it.
    EXPECT_EQ(found.front().shape.pipelines.front().lanes.size(), 1);
}

TEST(Candidates, DoNotNeedMoreWorkersThanThereAreLayers) {
    const Manner manner = manner_of(2, {4, 1});
    const auto found = candidates(5, manner);
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found.front().shape.pipelines.size(), 1U);
    EXPECT_EQ(found.front().shape.pipelines.front().stages.size(), 2U);
    EXPECT_EQ(found.front().shape.workers.size(), 5U);
}

TEST(Candidates, TakeAnotherStyleWhereTheWishedOneDoesNotFit) {
    Manner manner = manner_of(3, {6, 1}, 2);
    manner.style = schedule::Style::interleaved;
    manner.parts = 2;
    // Two stages on each of two workers are more than three layers.
    EXPECT_EQ(candidates(2, manner).front().style, schedule::Style::one_f_one_b);
    manner.layers.resize(4, {1.0});
    EXPECT_EQ(candidates(2, manner).front().style, schedule::Style::interleaved);
}

TEST(Candidates, OfOneWorkerHaveOneStageForAll) {
    const auto found = candidates(1, manner_of(6, {8, 4}, 3));
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found.front().shape.pipelines.front().stages.size(), 1U);
    EXPECT_DOUBLE_EQ(found.front().step_s, 6.0 * 8);
}

TEST(StepSeconds, AreThoseOfTheSlowestPipeline) {
    const Manner manner = manner_of(4, {8, 2});
    // Two stages of two seconds: 4 through both, and 2 for each of three further microbatches.
    const RunShape shape{.workers = {WorkerId{0}, WorkerId{1}, WorkerId{2}},
                         .lanes = {8, 2},
                         .pipelines = {{{{WorkerId{0}, {0, 2}}, {WorkerId{1}, {2, 4}}}, {0, 1}},
                                       {{{WorkerId{2}, {0, 4}}}, {1, 2}}}};
    EXPECT_DOUBLE_EQ(step_seconds(shape, manner.layers), 16.0);
    const RunShape alone{.workers = {WorkerId{0}, WorkerId{1}},
                         .lanes = {8, 2},
                         .pipelines = {{{{WorkerId{0}, {0, 2}}, {WorkerId{1}, {2, 4}}}, {0, 2}}}};
    EXPECT_DOUBLE_EQ(step_seconds(alone, manner.layers), 4 + 7 * 2.0);
}

}  // namespace
}  // namespace rhizome::recover
