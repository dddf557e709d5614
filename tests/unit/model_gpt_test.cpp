// The table of a GPT: names, counts against published ones, costs. No device is needed.
#include "model/gpt.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/text.hpp"

namespace rhizome::model {
namespace {

using testing::ElementsAre;
using testing::ExitedWithCode;

GptConfig config_of(std::string_view name, Tying tying = Tying::tied) {
    for (const GptSize& size : gpt_sizes) {
        if (size.name == name) {
            return {.blocks = size.blocks,
                    .channels = size.channels,
                    .heads = size.heads,
                    .context = size.context,
                    .vocabulary = size.vocabulary,
                    .tying = tying,
                    .dropout = 0.0};
        }
    }
    ADD_FAILURE() << name;
    return {};
}

std::int64_t parameters_of(const GptConfig& config) {
    return make_gpt(config, 1, DType::f32, 1 << 20).table().parameters();
}

TEST(Gpt, HasAsManyParametersAsTheModelsThatWerePublished) {
    EXPECT_EQ(parameters_of(config_of("gpt2")), 124439808);
    EXPECT_EQ(parameters_of(config_of("gpt2-medium")), 354823168);
    EXPECT_EQ(parameters_of(config_of("gpt2-large")), 774030080);
    EXPECT_EQ(parameters_of(config_of("gpt2-xl")), 1557611200);
}

TEST(Gpt, HasAsManyParametersAsEverySizesNameSaysRounded) {
    int compared = 0;
    for (const GptSize& size : gpt_sizes) {
        const std::size_t dash = size.name.find('-');
        if (dash == std::string_view::npos || size.name.starts_with("gpt2")) continue;
        const std::string said{size.name.substr(dash + 1, size.name.size() - dash - 2)};
        const double unit = size.name.ends_with('m') ? 1e6 : 1e9;
        const std::size_t point = said.find('.');
        const auto digits =
            static_cast<int>(point == std::string::npos ? 0 : said.size() - point - 1);
        const auto parameters = static_cast<double>(parameters_of(config_of(size.name)));
        EXPECT_EQ(to_fixed(parameters / unit, digits), said) << size.name;
        ++compared;
    }
    EXPECT_EQ(compared, 8);
}

TEST(Gpt, SizesAreOnesThatCanBeBuilt) {
    for (const GptSize& size : gpt_sizes) {
        EXPECT_EQ(size.channels % size.heads, 0) << size.name;
        EXPECT_LE(size.vocabulary, 65536) << "tokens of 16 bits";
    }
}

TEST(Gpt, OwnsATiedTensorOnceAndAnUntiedOneTwice) {
    const GptConfig tied = config_of("gpt2");
    const GptConfig untied = config_of("gpt2", Tying::untied);
    EXPECT_EQ(parameters_of(untied) - parameters_of(tied), 50257LL * 768);

    const Network network = make_gpt(tied, 1, DType::f32, 1 << 20);
    const TensorRef token{LayerId{0}, 0};
    const TensorRef head{LayerId{network.size() - 1}, 0};
    EXPECT_EQ(network.table().owner_of(head), token);
    EXPECT_THAT(network.table().uses_of(token), ElementsAre(token, head));
    EXPECT_EQ(make_gpt(untied, 1, DType::f32, 1 << 20).table().owner_of(head), head);
}

TEST(Gpt, NamesLayersAndTensorsAsThePageDoes) {
    const Network network = make_gpt({.blocks = 2,
                                      .channels = 8,
                                      .heads = 2,
                                      .context = 5,
                                      .vocabulary = 11,
                                      .tying = Tying::tied,
                                      .dropout = 0.0},
                                     3, DType::f32, 50);
    const LayerTable& table = network.table();
    std::vector<std::string> layers;
    for (const LayerFacts& layer : table.layers) layers.push_back(layer.name);
    EXPECT_THAT(layers, ElementsAre("embedding", "block.0", "block.1", "final_norm", "head"));

    std::vector<std::string> tensors;
    for (const ParameterFacts& parameter : table.layers[2].parameters) {
        tensors.push_back(parameter.spec.name);
    }
    EXPECT_THAT(tensors,
                ElementsAre("norm_1.weight", "norm_1.bias", "attention.weight", "attention.bias",
                            "projection.weight", "projection.bias", "norm_2.weight", "norm_2.bias",
                            "expand.weight", "expand.bias", "contract.weight", "contract.bias"));
    EXPECT_EQ(table.name_of({LayerId{0}, 0}), "embedding/token");
    EXPECT_EQ(table.name_of({LayerId{0}, 1}), "embedding/position");
    EXPECT_EQ(table.name_of({LayerId{2}, 8}), "block.1/expand.weight");
    EXPECT_EQ(table.at({LayerId{2}, 8}).spec.shape, (Shape{32, 8}));
    EXPECT_EQ(table.name_of({LayerId{3}, 1}), "final_norm/bias");
    EXPECT_EQ(table.name_of({LayerId{4}, 0}), "head/weight");
}

TEST(Gpt, DecaysTensorsOfTwoDimensionsOnly) {
    const Network network = make_gpt(config_of("gpt-0.1m"), 1, DType::f64, 1000);
    for (const LayerFacts& layer : network.table().layers) {
        for (const ParameterFacts& parameter : layer.parameters) {
            const Decay expected =
                parameter.spec.shape.dimensions() >= 2 ? Decay::weight : Decay::none;
            EXPECT_EQ(parameter.decay, expected) << layer.name << "/" << parameter.spec.name;
            EXPECT_EQ(parameter.spec.dtype, DType::f64);
        }
    }
}

TEST(Gpt, SendsOneHiddenStateAcrossEveryCut) {
    const Network network = make_gpt(config_of("gpt-0.1m"), 3, DType::f32, 1000);
    const auto& layers = network.table().layers;
    for (std::size_t i = 0; i + 1 < layers.size(); ++i) {
        EXPECT_THAT(layers[i].outputs,
                    ElementsAre(TensorSpec{"hidden", Shape{3, 64, 64}, DType::f32}));
        EXPECT_EQ(layers[i].costs.output_bytes, 3 * 64 * 64 * 4);
    }
    EXPECT_TRUE(layers.back().outputs.empty());
    EXPECT_THAT(layers.front().fields, ElementsAre("tokens"));
    EXPECT_THAT(layers.back().fields, ElementsAre("targets"));
}

TEST(Gpt, CountsTheBytesThatABlockKeeps) {
    const std::int64_t rows = 3;
    const std::int64_t tokens = rows * 64;
    const std::int64_t channels = 64;
    const std::int64_t heads = 2;
    const Network network = make_gpt(config_of("gpt-0.1m"), rows, DType::f32, 1000);
    const LayerCosts& block = network.table().layers[1].costs;
    // Two norms' outputs and their two numbers per token; queries, keys, values; the heads'
    // outputs and log sums; the middle of the residual stream; the wide layer before and after.
    EXPECT_EQ(block.saved_bytes, 4 * tokens * ((2 + 3 + 1 + 1 + 8) * channels + 4 + heads));
    // Gradients of the outputs of both norms and all four matrices.
    EXPECT_EQ(block.deferred_bytes, 4 * tokens * (2 + 3 + 1 + 4 + 1) * channels);
}

TEST(Gpt, CostsSixOperationsForEachParameterAndTokenPlusAttention) {
    for (const std::string_view name : {"gpt2-xl", "gpt3-6.7b"}) {
        const GptConfig config = config_of(name);
        const Network network = make_gpt(config, 2, DType::f32, 1 << 20);
        double flops = 0;
        for (const LayerFacts& layer : network.table().layers) {
            flops += layer.costs.forward_flops + layer.costs.backward_input_flops +
                     layer.costs.backward_weight_flops;
        }
        const double tokens = 2.0 * config.context;
        // Products of T x T x C: scores and sum forward; in backward the scores again, and the
        // gradients of values, probabilities, queries and keys.
        const double attention = 7.0 * 2.0 * config.context * config.channels * config.blocks;
        const double expected = 6.0 * static_cast<double>(parameters_of(config)) + attention;
        EXPECT_NEAR(flops / tokens, expected, 0.01 * expected) << name;
    }
}

TEST(Gpt, CostsInProportionToItsRows) {
    const Network one = make_gpt(config_of("gpt-0.1m"), 1, DType::f32, 1000);
    const Network three = make_gpt(config_of("gpt-0.1m"), 3, DType::f32, 1000);
    for (std::size_t i = 0; i < one.table().layers.size(); ++i) {
        const LayerCosts& small = one.table().layers[i].costs;
        const LayerCosts& large = three.table().layers[i].costs;
        EXPECT_DOUBLE_EQ(large.forward_flops, 3 * small.forward_flops);
        EXPECT_DOUBLE_EQ(large.backward_input_flops, 3 * small.backward_input_flops);
        EXPECT_DOUBLE_EQ(large.backward_weight_flops, 3 * small.backward_weight_flops);
        EXPECT_EQ(large.saved_bytes, 3 * small.saved_bytes);
    }
}

TEST(GptDeathTest, RefusesHeadsThatDoNotDivideTheChannels) {
    GptConfig config = config_of("gpt-0.1m");
    config.heads = 3;
    EXPECT_EXIT((void)make_gpt(config, 1, DType::f32, 1000), ExitedWithCode(1), "broken promise");
    config = config_of("gpt-0.1m");
    config.blocks = 0;
    EXPECT_EXIT((void)make_gpt(config, 1, DType::f32, 1000), ExitedWithCode(1), "broken promise");
}

}  // namespace
}  // namespace rhizome::model
