#include "plan/shape.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace rhizome::plan {
namespace {

using testing::ElementsAre;

std::vector<WorkerFacts> workers(std::int32_t count) {
    std::vector<WorkerFacts> facts;
    for (std::int32_t i = 0; i < count; ++i) facts.push_back({.id = WorkerId{i}});
    return facts;
}

ShapeWish wish_for(const std::vector<std::int32_t>& depths, std::int32_t lanes, int layers) {
    ShapeWish wish{
        .pipelines = {},
        .lanes = LaneShape{2 * lanes, lanes},
        .layers = std::vector<LayerLoad>(static_cast<std::size_t>(layers), {.seconds = 1})};
    for (const std::int32_t depth : depths) wish.pipelines.push_back({.workers = depth});
    return wish;
}

/// "0:0-3 1:4-7 | lanes 0-2": worker and layers of each stage.
std::string text_of(const PipelineShape& pipeline) {
    std::string text;
    for (const StageShape& stage : pipeline.stages) {
        text += std::to_string(stage.worker.value()) + ":" + plan::text_of(Cut{stage.layers}) + " ";
    }
    return text + "| lanes " + std::to_string(pipeline.lanes.first) + "-" +
           std::to_string(pipeline.lanes.last - 1);
}

std::string refusal(const std::vector<WorkerFacts>& facts, const ShapeWish& wish) {
    try {
        (void)make_shape(facts, wish);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "no error";
}

TEST(MakeShape, BuildsPipelinesOfUnevenDepth) {
    const RunShape shape = make_shape(workers(6), wish_for({3, 2}, 5, 6));
    ASSERT_EQ(shape.pipelines.size(), 2U);
    EXPECT_EQ(text_of(shape.pipelines[0]), "0:0-1 1:2-3 2:4-5 | lanes 0-2");
    EXPECT_EQ(text_of(shape.pipelines[1]), "3:0-2 4:3-5 | lanes 3-4");
    EXPECT_EQ(shape.workers.size(), 6U);  // worker 5 is a spare
    EXPECT_EQ(shape.pipeline_of(WorkerId{5}), std::nullopt);
    EXPECT_EQ(find_fault(shape, 6), std::nullopt);
    EXPECT_EQ(make_shape(workers(6), wish_for({3, 2}, 5, 6)).pipelines, shape.pipelines);
}

TEST(MakeShape, FillsPlacesInTheOrderOfTheList) {
    const std::vector<WorkerFacts> listed{
        {.id = WorkerId{7}}, {.id = WorkerId{2}}, {.id = WorkerId{9}}};
    const RunShape shape = make_shape(listed, wish_for({2}, 2, 4));
    EXPECT_THAT(shape.workers, ElementsAre(WorkerId{2}, WorkerId{7}, WorkerId{9}));
    EXPECT_EQ(text_of(shape.pipelines[0]), "7:0-1 2:2-3 | lanes 0-1");
}

TEST(MakeShape, DealsOutInterleavedStagesInTurn) {
    ShapeWish wish = wish_for({2}, 2, 9);
    wish.interleave = 2;
    EXPECT_EQ(text_of(make_shape(workers(2), wish).pipelines[0]),
              "0:0-1 1:2-3 0:4-5 1:6-8 | lanes 0-1");
}

TEST(MakeShape, GivesASlowWorkerLessAndItsPipelineFewerLanes) {
    std::vector<WorkerFacts> facts = workers(4);
    facts[3].slowness = 3;
    const RunShape shape = make_shape(facts, wish_for({2, 2}, 5, 8));
    EXPECT_EQ(text_of(shape.pipelines[0]), "0:0-3 1:4-7 | lanes 0-2");
    EXPECT_EQ(text_of(shape.pipelines[1]), "2:0-5 3:6-7 | lanes 3-4");
}

TEST(MakeShape, TakesCutsByHand) {
    ShapeWish wish = wish_for({2, 2}, 2, 9);
    wish.pipelines[1].cut = std::get<Cut>(parse_cut("7", 9));
    const RunShape shape = make_shape(workers(4), wish);
    EXPECT_EQ(text_of(shape.pipelines[0]), "0:0-3 1:4-8 | lanes 0-0");
    EXPECT_EQ(text_of(shape.pipelines[1]), "2:0-6 3:7-8 | lanes 1-1");
}

TEST(MakeShape, CountsMicrobatchesInFlightAsOneForwardOneBackwardDoes) {
    ShapeWish wish = wish_for({2}, 2, 4);
    wish.layers.assign(4, {.seconds = 1, .microbatch_bytes = 1});
    std::vector<WorkerFacts> facts = workers(2);
    facts[0].memory_bytes_max = 2;  // two microbatches of one layer
    EXPECT_EQ(text_of(make_shape(facts, wish).pipelines[0]), "0:0 1:1-3 | lanes 0-1");
    wish.pipelines[0].in_flight = {1, 1};
    EXPECT_EQ(text_of(make_shape(facts, wish).pipelines[0]), "0:0-1 1:2-3 | lanes 0-1");
    wish.pipelines[0].in_flight = {};
    wish.lanes = LaneShape{1, 1};  // no more than there are
    EXPECT_EQ(text_of(make_shape(facts, wish).pipelines[0]), "0:0-1 1:2-3 | lanes 0-0");
}

TEST(MakeShape, HoldsAnInterleavedCutByHandAgainstTheWholeMemory) {
    ShapeWish wish = wish_for({2}, 2, 6);
    wish.layers.assign(6, {.seconds = 1, .state_bytes = 1});
    wish.interleave = 2;
    wish.pipelines[0].cut = std::get<Cut>(parse_cut("2,3,4", 6));
    std::vector<WorkerFacts> facts = workers(2);
    for (WorkerFacts& worker : facts) worker.memory_bytes_max = 3;
    EXPECT_EQ(text_of(make_shape(facts, wish).pipelines[0]), "0:0-1 1:2 0:3 1:4-5 | lanes 0-1");
    facts[1].memory_bytes_max = 2;
    EXPECT_EQ(refusal(facts, wish),
              "cut=0-1,2,3,4-5 (worker 1 needs 3B and has 2B), give it fewer layers");
}

TEST(MakeShape, SaysWhyItCannot) {
    EXPECT_EQ(refusal(workers(5), wish_for({5}, 2, 4)),
              "stages=5 (the network has 4 layers), take at most 4");
    EXPECT_EQ(refusal(workers(7), wish_for({2, 5}, 2, 4)),
              "stages=5 in pipeline 1 (the network has 4 layers), take at most 4");
    ShapeWish wish = wish_for({3}, 2, 4);
    wish.interleave = 2;
    EXPECT_EQ(refusal(workers(3), wish),
              "stages=6 (3 workers with interleave=2, the network has 4 layers), take at most 4");
    wish.interleave = 0;
    EXPECT_EQ(refusal(workers(3), wish),
              "interleave=0 (a worker has at least one stage), take 1 or more");
    EXPECT_EQ(refusal(workers(3), wish_for({1, 1, 1}, 2, 4)),
              "pipelines=1,1,1 (3 pipelines for lanes=2, a pipeline runs whole lanes), take at "
              "most 2 pipelines");
    EXPECT_EQ(
        refusal(workers(4), wish_for({3, 2}, 2, 4)),
        "pipelines=3,2 (need 5 workers, there are 4), start 1 more or take smaller pipelines");
    EXPECT_EQ(refusal(workers(4), wish_for({}, 2, 4)),
              "pipelines= (names no pipeline), give the depth of at least one");
    EXPECT_EQ(refusal(workers(4), wish_for({2, 0}, 2, 4)),
              "pipelines=2,0 (a pipeline has at least one worker), leave out the 0");
    wish = wish_for({3}, 2, 9);
    wish.pipelines[0].cut = std::get<Cut>(parse_cut("4", 9));
    EXPECT_EQ(refusal(workers(3), wish),
              "cut=0-3,4-8 (2 stages for 3 workers with interleave=1), cut into 3");
    wish = wish_for({1}, 2, 2);
    wish.layers.assign(2, {.seconds = 1, .state_bytes = 1500});
    std::vector<WorkerFacts> facts = workers(1);
    facts[0].memory_bytes_max = 2000;
    EXPECT_EQ(refusal(facts, wish),
              "stages=1 (the workers' memory holds 1 of 2 layers), take more stages, fewer "
              "microbatches in flight or workers with more memory");
}

TEST(ShareLanes, IsInProportionToSpeed) {
    EXPECT_THAT(share_lanes(8, {1, 1, 1}), ElementsAre(3, 3, 2));
    EXPECT_THAT(share_lanes(5, {1}), ElementsAre(5));
    EXPECT_THAT(share_lanes(8, {3, 1}), ElementsAre(6, 2));
    EXPECT_THAT(share_lanes(8, {1, 2, 1}), ElementsAre(2, 4, 2));
    EXPECT_THAT(share_lanes(7, {0.1, 0.2, 0.1}), ElementsAre(2, 3, 2));  // remainders .75 .5 .75
}

TEST(ShareLanes, LeavesNoPipelineWithoutALane) {
    EXPECT_THAT(share_lanes(3, {100, 1, 1}), ElementsAre(1, 1, 1));
    EXPECT_THAT(share_lanes(8, {100, 1, 100}), ElementsAre(4, 1, 3));
    std::mt19937 random{2};
    for (int round = 0; round < 2000; ++round) {
        std::vector<double> speeds;
        const auto count = 1 + random() % 6;
        for (std::uint32_t p = 0; p < count; ++p) {
            speeds.push_back(1.0 / (1 + static_cast<int>(random() % 50)));
        }
        const auto pipelines = static_cast<std::int32_t>(speeds.size());
        const std::int32_t lanes = pipelines + static_cast<std::int32_t>(random() % 20);
        const auto shares = share_lanes(lanes, speeds);
        EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), 0), lanes);
        EXPECT_GE(*std::min_element(shares.begin(), shares.end()), 1);
        for (std::size_t a = 0; a < speeds.size(); ++a) {
            for (std::size_t b = 0; b < speeds.size(); ++b) {
                if (speeds[a] > speeds[b]) {
                    EXPECT_GE(shares[a], shares[b]);
                }
            }
        }
    }
}

}  // namespace
}  // namespace rhizome::plan
