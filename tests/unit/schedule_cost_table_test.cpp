// Measured costs as text, and against the network that they are said to be of.
#include "schedule/cost_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rhizome::schedule {
namespace {

using testing::HasSubstr;

CostTable sample() {
    return {{.name = "embedding",
             .cost = {0.1, 1e-7, 0.3, 12, 34, 56},
             .update_s = 0.25,
             .parameters = 1000},
            {.name = "head", .cost = {1.0 / 3, 2, 3, 0, 7, 8}, .update_s = 0, .parameters = 0}};
}

LayerTable network_of_sample() {
    LayerTable network{.layers = {}, .chunk_elements = 64};
    const TensorRef embedding{LayerId{0}, 0};
    LayerFacts first;
    first.name = "embedding";
    first.parameters = {{.spec = {"weight", Shape{100, 10}, DType::f32}}};
    first.costs = {.saved_bytes = 34, .deferred_bytes = 56, .output_bytes = 12};
    LayerFacts second;
    second.name = "head";
    second.parameters = {{.spec = {"weight", Shape{100, 10}, DType::f32}, .tied_to = embedding}};
    second.costs = {.saved_bytes = 7, .deferred_bytes = 8, .output_bytes = 0};
    network.layers = {first, second};
    return network;
}

std::string refusal(const std::string& text) {
    try {
        (void)parse_cost_table(text);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "";
}

TEST(CostTable, IsReadBackAsItWasWritten) {
    const std::string text = to_text(sample(), {"one note", "another\nnote"});
    EXPECT_EQ(parse_cost_table(text), sample());
    EXPECT_THAT(text, HasSubstr("rhizome costs 1\n# one note\n# another\\x0anote\n"));
}

TEST(CostTable, TakesCommentsBlanksAndEmptyLines) {
    EXPECT_EQ(parse_cost_table("\n# mine\r\n rhizome  costs 1 # yes\r\n\n"
                               "\tembedding 0.1 1e-7 0.3 0.25 1000 12 34 56 # by hand\n"
                               "head 0.3333333333333333 2 3 0 0 0 7 8"),
              sample());
}

TEST(CostTable, WhatIsWrongIsSaidWithItsLine) {
    const std::string head = "rhizome costs 1\n";
    for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
             {"", "the table (has no layers)"},
             {head, "the table (has no layers)"},
             {"a,b\n1,2\n", "line 1 (is not `rhizome costs 1`)"},
             {"rhizome costs 2\na 1 1 1 1 1 1 1 1\n", "line 1"},
             {head + "a 1 1 1 1 1 1 1\n", "line 2 (has no deferred_bytes)"},
             {head + "a 1 1 1 1 1 1 1 1 1\n", "line 2 (has more than 8 numbers)"},
             {head + "\na 0 1 1 1 1 1 1 1\n", "line 3 (`0` is no forward_s)"},
             {head + "a 1 -1 1 1 1 1 1 1\n", "`-1` is no backward_input_s"},
             {head + "a 1 1 nan 1 1 1 1 1\n", "`nan` is no backward_weight_s"},
             {head + "a 1 1 1 1e10 1 1 1 1\n", "`1e10` is no update_s"},
             {head + "a 1 1e-10 1 1 1 1 1 1\n", "`1e-10` is no backward_input_s"},
             {head + "a 1 1 1 1 1 1 1 1\na 1 1 1 1 1 1 1 1\n", "line 3 (names `a` a second time)"},
             {head + "a 1 1 1 1 3e12 1 1 1\n", "is no parameters"},
             {head + "a 1 1 1 1 3000000000000 1 1 1\nb 1 1 1 1 3000000000000 1 1 1\n",
              "line 3 (the layers have more than 2^42 parameters or bytes)"},
             {head + "a 1 1 1 1 1.5 1 1 1\n", "`1.5` is no parameters"},
             {head + "a 1 1 1 1 1 -1 1 1\n", "`-1` is no wire_bytes"},
             {head + "a 1 1 1 1 1 1 \x1b[1m 1\n", "`\\x1b[1m` is no saved_bytes"}}) {
        EXPECT_THAT(refusal(text), HasSubstr(part));
        EXPECT_THAT(refusal(text), testing::MatchesRegex("[^\n]*[(].*[)], .*"));
    }
}

TEST(CostTable, GivesCosts) {
    const Costs costs = costs_of(sample());
    ASSERT_EQ(costs.layers.size(), 2U);
    EXPECT_EQ(costs.layers[1], sample()[1].cost);
    EXPECT_DOUBLE_EQ(costs.update_s_per_element, 0.25 / 1000);
    EXPECT_EQ(costs_of({{.name = "bare", .cost = {1, 1, 1}}}).update_s_per_element, 0);
}

TEST(CostTable, FitsItsNetworkAndNoOther) {
    const LayerTable network = network_of_sample();
    EXPECT_EQ(find_misfit(sample(), network), std::nullopt);
    const auto misfit = [&](const auto& change) {
        CostTable table = sample();
        change(table);
        return find_misfit(table, network).value_or("none");
    };
    EXPECT_THAT(misfit([](auto& t) { t.pop_back(); }), HasSubstr("1 layer"));
    EXPECT_THAT(misfit([](auto& t) { t[1].name = "tail"; }), HasSubstr("tail"));
    EXPECT_THAT(misfit([](auto& t) { t[0].parameters = 7; }), HasSubstr("parameters=7"));
    EXPECT_THAT(misfit([](auto& t) { t[0].cost.wire_bytes = 7; }), HasSubstr("wire_bytes=7"));
    EXPECT_THAT(misfit([](auto& t) { t[1].cost.saved_bytes = 9; }), HasSubstr("saved_bytes=9"));
    EXPECT_THAT(misfit([](auto& t) { t[1].cost.deferred_bytes = 9; }),
                HasSubstr("deferred_bytes=9"));
}

TEST(CostTable, GivesLayersThatItFits) {
    const LayerTable layers = layers_of(sample());
    EXPECT_EQ(find_misfit(sample(), layers), std::nullopt);
    EXPECT_EQ(layers.parameters(), 1000);
}

}  // namespace
}  // namespace rhizome::schedule
