#include "plan/cut.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace rhizome::plan {
namespace {

using testing::ElementsAre;

/// Below `bound`, the same numbers everywhere.
std::int32_t draw(std::mt19937& random, std::int32_t bound) {
    return static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(bound));
}

std::vector<LayerLoad> loads_of(const std::vector<double>& seconds) {
    std::vector<LayerLoad> layers;
    for (const double s : seconds) layers.push_back({.seconds = s});
    return layers;
}

Cut cut_found(const MaybeCut& found) {
    EXPECT_TRUE(std::holds_alternative<Cut>(found)) << std::get<NoCut>(found).message();
    return std::get<Cut>(found);
}

std::string reason_found(const MaybeCut& found) {
    if (const auto* cut = std::get_if<Cut>(&found)) return "cut " + text_of(*cut);
    return std::get<NoCut>(found).message();
}

/// Slowest stage, sum of squares, cut: what the least of is taken, in this order.
using Rank = std::tuple<double, double, Cut>;

/// Tries every cut of layers [first, end) for stages [cut.size(), end).
void try_all(const std::vector<LayerLoad>& layers, const std::vector<StageHost>& hosts, Cut& cut,
             std::optional<Rank>& best) {
    const std::int32_t first = cut.empty() ? 0 : cut.back().last;
    const auto layers_all = static_cast<std::int32_t>(layers.size());
    if (cut.size() == hosts.size()) {
        if (first != layers_all) return;
        double slowest = 0;
        double squares = 0;
        for (std::size_t s = 0; s < cut.size(); ++s) {
            double seconds = 0;
            std::int64_t bytes = 0;
            for (auto i = static_cast<std::size_t>(cut[s].first);
                 i < static_cast<std::size_t>(cut[s].last); ++i) {
                seconds += layers[i].seconds * hosts[s].slowness;
                bytes += layers[i].state_bytes + hosts[s].in_flight * layers[i].microbatch_bytes;
            }
            if (bytes > hosts[s].memory_bytes_max) return;
            slowest = std::max(slowest, seconds);
            squares += seconds * seconds;
        }
        const Rank rank{slowest, squares, cut};
        if (!best || rank < *best) best = rank;
        return;
    }
    for (std::int32_t last = first + 1; last <= layers_all; ++last) {
        cut.push_back({first, last});
        try_all(layers, hosts, cut, best);
        cut.pop_back();
    }
}

std::optional<Rank> best_of_all(const std::vector<LayerLoad>& layers,
                                const std::vector<StageHost>& hosts) {
    Cut cut;
    std::optional<Rank> best;
    try_all(layers, hosts, cut, best);
    return best;
}

// Seconds are small whole numbers and slowness is a multiple of a half, so sums are exact and ties
// are frequent.
TEST(CutLayers, IsTheBestOfAllCuts) {
    std::mt19937 random{1};
    int found = 0;
    int refused = 0;
    for (int round = 0; round < 400; ++round) {
        for (std::int32_t stages = 1; stages <= 5; ++stages) {
            std::vector<LayerLoad> layers;
            const std::int32_t count = 1 + draw(random, 8);
            for (std::int32_t i = 0; i < count; ++i) {
                layers.push_back({.seconds = 1.0 + draw(random, 6),
                                  .state_bytes = draw(random, 5),
                                  .microbatch_bytes = draw(random, 3)});
            }
            std::vector<StageHost> hosts;
            for (std::int32_t s = 0; s < stages; ++s) {
                hosts.push_back({.slowness = 1 + 0.5 * draw(random, 3),
                                 .memory_bytes_max = 4 + draw(random, 25),
                                 .in_flight = stages - s});
            }
            const auto best = best_of_all(layers, hosts);
            const MaybeCut result = cut_layers(layers, hosts);
            EXPECT_EQ(cut_layers(layers, hosts), result);
            if (!best) {
                EXPECT_TRUE(std::holds_alternative<NoCut>(result)) << reason_found(result);
                ++refused;
                continue;
            }
            const Cut cut = cut_found(result);
            ASSERT_EQ(cut, std::get<Cut>(*best)) << text_of(cut);
            EXPECT_EQ(slowest_stage_s(layers, cut, hosts), std::get<0>(*best));
            ++found;
        }
    }
    EXPECT_GT(found, 300);
    EXPECT_GT(refused, 300);
}

TEST(CutLayers, GivesTheSlowWorkerLess) {
    const auto layers = loads_of({1, 1, 1, 1, 1, 1});
    EXPECT_THAT(cut_found(cut_layers(layers, {{.slowness = 2}, {.slowness = 1}})),
                ElementsAre(LayerRange{0, 2}, LayerRange{2, 6}));
    EXPECT_THAT(cut_found(cut_layers(layers, {{.slowness = 1}, {.slowness = 2}})),
                ElementsAre(LayerRange{0, 4}, LayerRange{4, 6}));
}

TEST(CutLayers, MovesTheBorderForMicrobatchesInFlight) {
    std::vector<LayerLoad> layers(6, {.seconds = 1, .state_bytes = 1, .microbatch_bytes = 3});
    const auto cut_with = [&](std::int32_t in_flight) {
        return text_of(
            cut_found(cut_layers(layers, {{.memory_bytes_max = 14, .in_flight = in_flight},
                                          {.memory_bytes_max = 16, .in_flight = 1}})));
    };
    EXPECT_EQ(cut_with(1), "0-2,3-5");
    EXPECT_EQ(cut_with(2), "0-1,2-5");  // seven bytes a layer, so two of them
}

TEST(CutLayers, MakesTheOtherStagesEvenToo) {
    // The slowest stage is the last layer whatever is done; 3, 3 is better than 1, 5.
    EXPECT_EQ(text_of(cut_found(cut_layers(loads_of({1, 1, 1, 1, 1, 1, 9}), {{}, {}, {}}))),
              "0-2,3-5,6");
}

TEST(CutLayers, TakesTheFirstBorderAmongEquals) {
    EXPECT_EQ(text_of(cut_found(cut_layers(loads_of({1, 1, 1}), {{}, {}}))), "0,1-2");
}

TEST(CutLayers, CutsAHundredLayersIntoSixtyFourStages) {
    std::vector<LayerLoad> layers;
    for (int i = 0; i < 100; ++i) layers.push_back({.seconds = 1.0 + i % 7});
    const std::vector<StageHost> hosts(64);
    const Cut cut = cut_found(cut_layers(layers, hosts));
    EXPECT_EQ(cut.size(), 64U);
    EXPECT_EQ(cut.back().last, 100);
    EXPECT_EQ(slowest_stage_s(layers, cut, hosts), 9);  // 1+2+3 and the like pack no better
}

TEST(CutLayers, SaysWhyThereIsNone) {
    EXPECT_EQ(reason_found(cut_layers(loads_of({1, 1, 1, 1}), std::vector<StageHost>(5))),
              "stages=5 (the network has 4 layers), take at most 4");
    const std::vector<LayerLoad> layers{{.seconds = 1, .state_bytes = 2},
                                        {.seconds = 1, .state_bytes = 7, .microbatch_bytes = 1},
                                        {.seconds = 1, .state_bytes = 2}};
    const std::string hint =
        "), take more stages, fewer microbatches in flight or workers with more memory";
    const auto refused = [&](const std::vector<std::int64_t>& memory) {
        std::vector<StageHost> hosts;
        for (const std::int64_t bytes : memory) hosts.push_back({.memory_bytes_max = bytes});
        return reason_found(cut_layers(layers, hosts));
    };
    EXPECT_EQ(refused({7, 7}), "stages=2 (layer 1 alone needs 8B, which no worker has" + hint);
    EXPECT_EQ(
        refused({10, 1}),
        "stages=2 (the worker of stage 1 has 1B, too little for any layer it could have" + hint);
    EXPECT_EQ(refused({8, 8}), "stages=2 (the workers' memory holds 2 of 3 layers" + hint);
    // The first stage could hold all, but the layer of nine must not be left to another.
    const std::vector<LayerLoad> uneven{{.seconds = 1, .state_bytes = 1},
                                        {.seconds = 1, .state_bytes = 1},
                                        {.seconds = 1, .state_bytes = 9},
                                        {.seconds = 1, .state_bytes = 1}};
    EXPECT_EQ(
        reason_found(cut_layers(
            uneven, {{.memory_bytes_max = 12}, {.memory_bytes_max = 2}, {.memory_bytes_max = 2}})),
        "stages=3 (no cut fits into the workers' memory" + hint);
}

TEST(LayerLoads, AddUpCostsAndCountTiedCopies) {
    const LayerTable table{
        .layers = {{.name = "a",
                    .parameters = {{.spec = {"w", {4, 5}}}},
                    .outputs = {},
                    .fields = {},
                    .costs = {}},
                   {.name = "b",
                    .parameters = {{.spec = {"w", {4, 5}}, .tied_to = TensorRef{LayerId{0}, 0}},
                                   {.spec = {"bias", {3}}}},
                    .outputs = {},
                    .fields = {},
                    .costs = {}}},
        .chunk_elements = 8};
    schedule::Costs costs;
    costs.layers = {{.forward_s = 1, .backward_input_s = 2, .backward_weight_s = 4},
                    {.forward_s = 8,
                     .backward_input_s = 0.5,
                     .backward_weight_s = 0.25,
                     .saved_bytes = 100,
                     .deferred_bytes = 10}};
    const auto loads = layer_loads(table, costs, 16);
    ASSERT_EQ(loads.size(), 2U);
    EXPECT_EQ(loads[0].seconds, 7);
    EXPECT_EQ(loads[0].state_bytes, 320);
    EXPECT_EQ(loads[1].seconds, 8.75);
    EXPECT_EQ(loads[1].state_bytes, 368);
    EXPECT_EQ(loads[1].microbatch_bytes, 110);
}

TEST(ParseCut, ReadsStagesAndBorders) {
    const Cut cut{{0, 4}, {4, 5}, {5, 9}};
    EXPECT_EQ(parse_cut("0-3,4,5-8", 9), MaybeCut{cut});
    EXPECT_EQ(parse_cut("4,5", 9), MaybeCut{cut});
    EXPECT_EQ(parse_cut("0-8", 9), MaybeCut{Cut({{0, 9}})});
    EXPECT_EQ(parse_cut("0", 1), MaybeCut{Cut({{0, 1}})});
    EXPECT_EQ(parse_cut("0,1", 2), MaybeCut{Cut({{0, 1}, {1, 2}})});
    EXPECT_EQ(parse_cut("1", 2), MaybeCut{Cut({{0, 1}, {1, 2}})});
    EXPECT_EQ(text_of(cut), "0-3,4,5-8");
}

TEST(ParseCut, SaysWhatIsWrong) {
    const auto said = [](const std::string& text) { return reason_found(parse_cut(text, 9)); };
    const std::string form = ", write stages, as in 0-3,4,5-8, or borders, as in 4,5";
    EXPECT_EQ(said(""), "cut= (names no stage)" + form);
    const auto no_item = [&](const std::string& text, const std::string& item) {
        EXPECT_EQ(said(text), "cut=" + text + " (`" + item +
                                  "` is neither a layer nor a range of layers)" + form);
    };
    no_item("4,,5", "");
    no_item("4,5,", "");
    no_item(" 4", " 4");
    no_item("0-3, 4-8", " 4-8");
    no_item("0-", "0-");
    no_item("-3", "-3");
    no_item("0--3", "0--3");
    no_item("0-3-4", "0-3-4");
    no_item("+4", "+4");
    no_item("four", "four");
    no_item("99999999999999999999", "99999999999999999999");
    EXPECT_EQ(said("4\n"), "cut=4\\x0a (`4\\x0a` is neither a layer nor a range of layers)" + form);
    EXPECT_EQ(said("0-3,5-8"),
              "cut=0-3,5-8 (stage 1 does not begin at layer 4), let each stage begin where the "
              "one before it ends");
    EXPECT_EQ(said("0-3,3-8"),
              "cut=0-3,3-8 (stage 1 does not begin at layer 4), let each stage begin where the "
              "one before it ends");
    EXPECT_EQ(said("0-3,4-3"),
              "cut=0-3,4-3 (stage 1 ends before it begins), write first and last layer, as in 0-3");
    EXPECT_EQ(said("0-3,4-9"), "cut=0-3,4-9 (the last layer is 8), end there");
    EXPECT_EQ(said("0-8,9"), "cut=0-8,9 (the last layer is 8), end there");
    EXPECT_EQ(said("0-3,4-99999999999"), "cut=0-3,4-99999999999 (the last layer is 8), end there");
    EXPECT_EQ(said("0-3"), "cut=0-3 (layer 4 is in no stage, the last layer is 8), end there");
    EXPECT_EQ(said("1-3,4-8"),
              "cut=1-3,4-8 (a list of stages begins with layer 0, a list of borders has no "
              "hyphens), begin with 0 or write single layers");
    EXPECT_EQ(said("5,4"),
              "cut=5,4 (the borders do not ascend), name the first layer of each further stage");
    EXPECT_EQ(said("4,4"),
              "cut=4,4 (the borders do not ascend), name the first layer of each further stage");
    EXPECT_EQ(said("4,9"), "cut=4,9 (the last layer is 8), take borders of at most that");
}

}  // namespace
}  // namespace rhizome::plan
