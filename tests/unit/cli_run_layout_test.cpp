// From a configuration to the layout of a run, or to the reason why there is none.
#include "cli/run_layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/gpt.hpp"
#include "schedule/check.hpp"
#include "schedule/cost_table.hpp"
#include "unit/data_temp_folder.hpp"

namespace rhizome::cli {
namespace {

using schedule::Style;
using testing::HasSubstr;

/// Seven layers: embedding, four blocks, norm, head.
RunConfig small_config() {
    RunConfig config;
    config.model = {.blocks = 4, .channels = 8, .heads = 2, .context = 5, .vocabulary = 11};
    config.microbatches = 8;
    config.lanes = 4;
    config.microbatch_size = 2;
    config.chunk_elements = 50;
    return config;
}

LayerTable table_of(const RunConfig& config) {
    return model::make_gpt(config.model, config.microbatch_size, device::dtype_of(config.precision),
                           config.chunk_elements)
        .table();
}

std::vector<WorkerId> workers(std::int32_t count) {
    std::vector<WorkerId> all;
    for (std::int32_t w = 0; w < count; ++w) all.emplace_back(w);
    return all;
}

engine::RunPlan plan_of(const RunConfig& config, std::int32_t count,
                        std::int32_t evaluation_microbatches = 2) {
    const LayerTable table = table_of(config);
    return make_layout(config, table, costs_of(config, table), workers(count),
                       evaluation_microbatches);
}

/// What the user reads, or "" if all is well.
std::string refusal(const RunConfig& config, std::int32_t count) {
    try {
        (void)plan_of(config, count);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "";
}

TEST(WorkersNeeded, AreThoseOfAllPipelines) {
    RunConfig config;
    EXPECT_EQ(workers_needed(config), 1);
    config.depths = {3, 2, 2};
    config.parts = 4;
    EXPECT_EQ(workers_needed(config), 7);
}

TEST(MakeLayout, GivesEachPipelineItsStagesAndLanes) {
    RunConfig config = small_config();
    config.depths = {3, 2};
    const engine::RunPlan plan = plan_of(config, 6);
    ASSERT_EQ(plan.shape.pipelines.size(), 2U);
    EXPECT_EQ(plan.shape.workers, workers(6));
    EXPECT_EQ(plan.shape.lanes, LaneShape(8, 4));
    EXPECT_EQ(plan.shape.pipelines[0].stages.size(), 3U);
    EXPECT_EQ(plan.shape.pipelines[1].stages.size(), 2U);
    EXPECT_EQ(find_fault(plan.shape, 7), std::nullopt);
    EXPECT_FALSE(plan.shape.pipeline_of(WorkerId{5}));
    ASSERT_TRUE(plan.evaluation);
    EXPECT_EQ(plan.evaluation->shape.lanes.microbatches, 2);
}

TEST(MakeLayout, CutsByMeasuredCosts) {
    RunConfig config = small_config();
    config.depths = {2};
    const LayerTable table = table_of(config);
    schedule::Costs costs = costs_of(config, table);
    for (schedule::LayerCost& layer : costs.layers) layer.forward_s = 1;
    const auto first_stage = [&] {
        return make_layout(config, table, costs, workers(2), 0).shape.pipelines[0].stages[0].layers;
    };
    costs.layers[0].forward_s = 100;
    EXPECT_EQ(first_stage(), (LayerRange{0, 1}));
    costs.layers[0].forward_s = 1;
    costs.layers[6].forward_s = 100;
    EXPECT_EQ(first_stage(), (LayerRange{0, 6}));
}

TEST(MakeLayout, CutsByTheCostsOfAFile) {
    const data::TempFolder folder;
    RunConfig config = small_config();
    config.depths = {2};
    config.pace.link_latency_s = 0.5;
    config.pace.link_bytes_per_s = 7;
    const LayerTable table = table_of(config);
    for (const std::size_t slow : {std::size_t{0}, std::size_t{6}}) {
        schedule::CostTable measured;
        for (const LayerFacts& layer : table.layers) {
            const double seconds = measured.size() == slow ? 100 : 1;
            measured.push_back({.name = layer.name,
                                .cost = {seconds, seconds, seconds, layer.costs.output_bytes,
                                         layer.costs.saved_bytes, layer.costs.deferred_bytes},
                                .parameters = owned_elements(layer)});
        }
        config.costs = folder.write("costs", schedule::to_text(measured, {}));
        const schedule::Costs costs = costs_of(config, table);
        EXPECT_EQ(costs.layers, schedule::costs_of(measured).layers);
        EXPECT_EQ(costs.link_latency_s, 0.5);
        EXPECT_EQ(costs.link_bytes_per_s, 7);
        const RunShape shape = plan_of(config, 2).shape;
        EXPECT_EQ(shape.pipelines[0].stages[0].layers.last, slow == 0 ? 1 : 6);
    }
}

TEST(MakeLayout, TakesACutByHandForEveryPipeline) {
    RunConfig config = small_config();
    config.depths = {2, 2};
    config.cut = "2";
    const engine::RunPlan plan = plan_of(config, 4);
    for (const PipelineShape& pipeline : plan.shape.pipelines) {
        EXPECT_EQ(pipeline.stages[0].layers, (LayerRange{0, 2}));
        EXPECT_EQ(pipeline.stages[1].layers, (LayerRange{2, 7}));
    }
}

TEST(MakeLayout, DealsOutSeveralStagesToAWorker) {
    RunConfig config = small_config();
    config.depths = {2};
    config.parts = 3;
    config.style = Style::interleaved;
    const engine::RunPlan plan = plan_of(config, 2);
    ASSERT_EQ(plan.shape.pipelines[0].stages.size(), 6U);
    for (std::int32_t s = 0; s < 6; ++s) {
        EXPECT_EQ(plan.shape.pipelines[0].stages[static_cast<std::size_t>(s)].worker,
                  WorkerId{s % 2});
    }
}

TEST(MakeLayout, HasAsManyOwnersAsAskedForAndAtMostAllWorkers) {
    RunConfig config = small_config();
    config.depths = {3};
    for (const auto& [asked, found] : std::vector<std::pair<std::int32_t, std::size_t>>{
             {1, 1}, {2, 2}, {4, 4}, {9, 4}, {0, 4}}) {
        config.owners = asked;
        const engine::RunPlan plan = plan_of(config, 4);
        for (const OwnedChunk& each : plan.owners.chunks) {
            EXPECT_EQ(each.owners.size(), found) << asked;
        }
    }
}

TEST(MakeLayout, RefusesMoreStagesThanLayers) {
    RunConfig config = small_config();
    config.depths = {8};
    EXPECT_THAT(refusal(config, 8), HasSubstr("layers"));
    config.depths = {7};
    EXPECT_EQ(refusal(config, 7), "");
}

TEST(MakeLayout, RefusesMoreStagesThanLayersOnFewWorkers) {
    RunConfig config = small_config();
    config.depths = {2};
    config.parts = 4;
    config.style = Style::interleaved;
    EXPECT_THAT(refusal(config, 2), HasSubstr("layers"));
}

TEST(MakeLayout, RefusesFewerWorkersThanPlaces) {
    RunConfig config = small_config();
    config.depths = {3, 2};
    EXPECT_THAT(refusal(config, 4), HasSubstr("need 5 workers, there are 4"));
    EXPECT_EQ(refusal(config, 5), "");
}

TEST(MakeLayout, RefusesMorePipelinesThanLanes) {
    RunConfig config = small_config();
    config.depths = {1, 1, 1, 1, 1};
    EXPECT_THAT(refusal(config, 5), HasSubstr("5 pipelines for lanes=4"));
}

TEST(MakeLayout, RefusesACutThatDoesNotFit) {
    RunConfig config = small_config();
    config.depths = {2};
    for (const auto* cut : {"2,4", "0-3,5-6", "7", "9", "x", "3,3", "0-6"}) {
        config.cut = cut;
        EXPECT_NE(refusal(config, 2), "") << cut;
        EXPECT_THAT(refusal(config, 2), HasSubstr(", ")) << cut;  // a hint
    }
}

TEST(MakeLayout, RefusesAStyleThatDoesNotFit) {
    RunConfig config = small_config();
    config.depths = {2};
    config.parts = 2;
    config.style = Style::zero_bubble_h1;
    EXPECT_THAT(refusal(config, 2), testing::StartsWith("style=zb-h1 ("));
    EXPECT_THAT(refusal(config, 2), HasSubstr("several stages on one worker"));
    config.style = Style::interleaved;
    EXPECT_EQ(refusal(config, 2), "");
}

TEST(MakeLayout, HasNoEvaluationWhereNoneIsAskedFor) {
    const RunConfig config = small_config();
    EXPECT_FALSE(plan_of(config, 1, 0).evaluation);
}

TEST(MakeLayout, IsFaultlessInEveryStyle) {
    for (const Style style : schedule::all_styles()) {
        if (style == Style::evaluation) continue;
        for (const auto recompute : {engine::Recompute::none, engine::Recompute::all}) {
            RunConfig config = small_config();
            config.depths = {3, 2};
            config.parts = style == Style::interleaved ? 2 : 1;
            config.style = style;
            config.recompute = recompute;
            EXPECT_EQ(refusal(config, 6), "") << schedule::name_of(style);
        }
    }
}

std::string text_of(const RunConfig& config, std::int32_t count) {
    const LayerTable table = table_of(config);
    return layout_text(config, plan_of(config, count), costs_of(config, table), table);
}

TEST(LayoutText, SaysWhoComputesWhat) {
    RunConfig config = small_config();
    config.depths = {2, 1};
    config.cut = "";
    const std::string text = text_of(config, 4);
    EXPECT_THAT(text, testing::StartsWith("layout       2 pipelines, 4 workers, 1f1b, "));
    EXPECT_THAT(text, HasSubstr("% bubbles by estimate\n"));
    EXPECT_THAT(text, HasSubstr(" on 0 | "));
    EXPECT_THAT(text, HasSubstr("  pipeline 1  layers 0-6 on 2, lanes "));
    EXPECT_THAT(text, HasSubstr("owners       2 of each of "));
}

TEST(LayoutText, OfOneWorkerHasNoBubbles) {
    const std::string text = text_of(small_config(), 1);
    EXPECT_THAT(text, testing::StartsWith("layout       1 pipeline, 1 worker, 1f1b\n"
                                          "  pipeline 0  layers 0-6 on 0, lanes 0-3\n"
                                          "owners       1 of each of "));
}

TEST(LayoutText, NamesASingleLayerOrLaneByItself) {
    RunConfig config = small_config();
    config.depths = {2, 2, 2, 2};
    config.cut = "6";
    EXPECT_THAT(text_of(config, 8), HasSubstr("  pipeline 3  layers 0-5 on 6 | 6 on 7, lanes 3\n"));
}

}  // namespace
}  // namespace rhizome::cli
