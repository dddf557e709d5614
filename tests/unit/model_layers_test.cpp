// The promises of model/layer.hpp, kept by every layer of a GPT.
#include <gmock/gmock.h>

#include <tuple>

#include "model/gpt.hpp"
#include "support/finite_differences.hpp"
#include "support/layer_bench.hpp"

namespace rhizome::tests {
namespace {

using device::Tensor;
using model::Pass;

constexpr std::int64_t rows = 3;
constexpr std::array layer_names{"embedding", "block.0", "final_norm", "head"};

model::Network small_network(double dropout) {
    return model::make_gpt({.blocks = 1,
                            .channels = 6,
                            .heads = 2,
                            .context = 5,
                            .vocabulary = 7,
                            .tying = model::Tying::untied,
                            .dropout = dropout},
                           rows, DType::f64, 50);
}

Pass some_pass(Pass::Mode mode = Pass::Mode::train, std::int32_t step = 3,
               std::int32_t microbatch = 2) {
    return {.mode = mode,
            .seed = 11,
            .step = Step{step},
            .microbatch = Microbatch{microbatch},
            .gradient_scale = 0.125};
}

/// A layer by its number, and a probability of dropout.
class OneLayer : public testing::TestWithParam<std::tuple<std::int32_t, double>> {
  protected:
    static LayerId id() { return LayerId{std::get<0>(GetParam())}; }
    static bool drops() {
        const bool has_dropout = id().value() <= 1;  // embedding and block
        return has_dropout && std::get<1>(GetParam()) > 0;
    }
    LayerBench make(const model::Network& of_network, std::uint64_t seed = 100) {
        std::vector<double> tokens;
        std::vector<double> targets;
        for (int i = 0; i < 15; ++i) {
            tokens.push_back((i * i + 3) % 7);
            targets.push_back((i * 3 + 1) % 7);
        }
        return {bench,
                of_network,
                id(),
                {{"tokens", bench.put(Shape{rows, 5}, DType::i32, tokens)},
                 {"targets", bench.put(Shape{rows, 5}, DType::i32, targets)}},
                seed};
    }

    Workbench bench;
    model::Network network = small_network(std::get<1>(GetParam()));
};

std::string name_of_case(const testing::TestParamInfo<OneLayer::ParamType>& each) {
    const auto [layer, dropout] = each.param;
    const std::string name = layer == 1 ? "block" : layer_names.at(static_cast<std::size_t>(layer));
    return name + (dropout > 0 ? "_dropout" : "");
}

INSTANTIATE_TEST_SUITE_P(Gpt, OneLayer,
                         testing::Combine(testing::Range(0, 4), testing::Values(0.0, 0.3)),
                         name_of_case);

TEST_P(OneLayer, IsTheOneItsNumberSays) {
    EXPECT_EQ(network.layer(id()).spec().name, layer_names[id().index()]);
    EXPECT_EQ(network.size(), 4);
}

TEST_P(OneLayer, BackwardAgreesWithFiniteDifferences) {
    const Pass pass = some_pass();
    LayerBench layer = make(network);
    std::vector<std::vector<double>> start;
    for (const Tensor& gradient : layer.of("gradients")) start.push_back(bench.read(gradient));
    layer.forward(pass);
    layer.backward_input(pass);
    layer.backward_weight(pass);

    // Outputs along their given gradients; a loss counts as the pass says.
    const auto value = [&] {
        layer.forward(pass);
        double sum = 0;
        for (std::size_t i = 0; i < layer.of("outputs").size(); ++i) {
            sum += dot(bench.read(layer.of("outputs")[i]), bench.read(layer.of("d_outputs")[i]));
        }
        if (network.layer(id()).spec().loss == model::Loss::adds) {
            sum += bench.read(layer.of("loss").front())[0] * pass.gradient_scale;
        }
        return sum;
    };
    const auto expect_gradient = [&](const Tensor& x, const std::vector<double>& gradient) {
        const auto elements = some_elements(x.elements(), 60);
        std::vector<double> chosen;
        for (const std::int64_t element : elements) {
            chosen.push_back(gradient[static_cast<std::size_t>(element)]);
        }
        const auto expected = finite_differences(bench, x, elements, value);
        expect_close(chosen, expected, 1e-8);
        return largest_of(expected);
    };
    double largest = 0;
    for (std::size_t i = 0; i < layer.of("inputs").size(); ++i) {
        SCOPED_TRACE(testing::Message() << "input " << i);
        const Tensor& input = layer.of("inputs")[i];
        const auto gradient = bench.read(layer.of("d_inputs")[i]);
        largest = std::max(largest, expect_gradient(input, gradient));
    }
    for (std::size_t i = 0; i < layer.of("parameters").size(); ++i) {
        SCOPED_TRACE(network.layer(id()).spec().parameters[i].spec.name);
        auto added = bench.read(layer.of("gradients")[i]);
        for (std::size_t e = 0; e < added.size(); ++e) added[e] -= start[i][e];
        largest = std::max(largest, expect_gradient(layer.of("parameters")[i], added));
    }
    EXPECT_GT(largest, 0.01) << "a gradient of nothing proves nothing";
}

TEST_P(OneLayer, EachPartWritesOnlyWhatItMay) {
    LayerBench layer = make(network);
    layer.expect_writes_only({"outputs", "saved", "scratch", "loss"},
                             [&] { layer.forward(some_pass()); });
    layer.expect_writes_only({"d_inputs", "deferred", "scratch"},
                             [&] { layer.backward_input(some_pass()); });
    layer.expect_writes_only({"gradients", "scratch"}, [&] { layer.backward_weight(some_pass()); });
}

TEST_P(OneLayer, EachPartWritesAllItMust) {
    LayerBench layer = make(network);
    const auto expect_no_nan = [&](const std::string& kind) {
        for (const Tensor& tensor : layer.of(kind)) {
            for (const double number : bench.read(tensor)) EXPECT_FALSE(std::isnan(number)) << kind;
        }
    };
    layer.forward(some_pass());
    expect_no_nan("outputs");
    expect_no_nan("saved");
    layer.backward_input(some_pass());
    expect_no_nan("d_inputs");
    expect_no_nan("deferred");
    layer.backward_weight(some_pass());
    expect_no_nan("gradients");
    const bool loss_is_set = !std::isnan(bench.read(layer.of("loss").front())[0]);
    EXPECT_EQ(loss_is_set, network.layer(id()).spec().loss == model::Loss::adds);
}

TEST_P(OneLayer, ForwardGivesTheSameBitsWhenRepeated) {
    LayerBench layer = make(network);
    layer.forward(some_pass());
    const auto outputs = layer.bytes("outputs");
    const auto saved = layer.bytes("saved");
    const auto loss = layer.bytes("loss");
    for (const std::string kind : {"outputs", "saved", "scratch", "loss"}) layer.poison(kind);
    layer.forward(some_pass());
    EXPECT_EQ(layer.bytes("outputs"), outputs);
    EXPECT_EQ(layer.bytes("saved"), saved);
    EXPECT_EQ(layer.bytes("loss"), loss);
}

TEST_P(OneLayer, WeightPartMayRunMuchLaterAmongOtherMicrobatches) {
    LayerBench at_once = make(network);
    at_once.forward(some_pass());
    at_once.backward_input(some_pass());
    at_once.backward_weight(some_pass());

    LayerBench later = make(network);
    LayerBench other = make(network, /*seed=*/200);
    const Pass other_pass = some_pass(Pass::Mode::train, 3, 7);
    later.forward(some_pass());
    other.forward(other_pass);
    later.backward_input(some_pass());
    // All that need not be kept is gone by the time of the weight part.
    for (const std::string kind : {"scratch", "d_inputs", "d_outputs"}) later.poison(kind);
    other.backward_input(other_pass);
    other.backward_weight(other_pass);
    later.backward_weight(some_pass());
    EXPECT_EQ(later.bytes("gradients"), at_once.bytes("gradients"));
}

TEST_P(OneLayer, KeepsNothingInScratchBetweenForwardAndBackward) {
    LayerBench plain = make(network);
    LayerBench disturbed = make(network);
    plain.forward(some_pass());
    disturbed.forward(some_pass());
    disturbed.poison("scratch");
    plain.backward_input(some_pass());
    disturbed.backward_input(some_pass());
    EXPECT_EQ(disturbed.bytes("d_inputs"), plain.bytes("d_inputs"));
    EXPECT_EQ(disturbed.bytes("deferred"), plain.bytes("deferred"));
}

TEST_P(OneLayer, EvaluatesWithoutDropout) {
    const model::Network without_dropout = small_network(0.0);
    LayerBench layer = make(network);
    LayerBench plain = make(without_dropout);
    layer.forward(some_pass(Pass::Mode::evaluate));
    plain.forward(some_pass(Pass::Mode::train));
    EXPECT_EQ(layer.bytes("outputs"), plain.bytes("outputs"));
    EXPECT_EQ(layer.bytes("saved"), plain.bytes("saved"));
    EXPECT_EQ(layer.bytes("loss"), plain.bytes("loss"));
}

TEST_P(OneLayer, DropsOtherElementsInEveryMicrobatchAndStep) {
    LayerBench layer = make(network);
    const auto outputs_of = [&](const Pass& pass) {
        layer.forward(pass);
        return layer.bytes("outputs");
    };
    const auto outputs = outputs_of(some_pass());
    const auto of_microbatch = outputs_of(some_pass(Pass::Mode::train, 3, 4));
    const auto of_step = outputs_of(some_pass(Pass::Mode::train, 4, 2));
    const auto evaluated = outputs_of(some_pass(Pass::Mode::evaluate));
    EXPECT_EQ(of_microbatch != outputs, drops());
    EXPECT_EQ(of_step != outputs, drops());
    EXPECT_EQ(evaluated != outputs, drops());
}

// Whether a site drops anything shows only in the numbers, so each is looked for where it acts.
TEST(Block, DropsProbabilitiesAndBothBranchesEachWithAMaskOfItsOwn) {
    Workbench bench;
    const model::Network with = small_network(0.3);
    const model::Network without = small_network(0.0);
    LayerBench dropped{bench, with, LayerId{1}, {}, 100};
    LayerBench plain{bench, without, LayerId{1}, {}, 100};
    dropped.forward(some_pass());
    plain.forward(some_pass());
    const auto saved = [&](LayerBench& layer, const std::string& name) {
        const auto& specs = with.layer(LayerId{1}).spec().saved;
        for (std::size_t i = 0; i < specs.size(); ++i) {
            if (specs[i].name == name) return bench.read(layer.of("saved")[i]);
        }
        return std::vector<double>{};
    };
    EXPECT_EQ(saved(dropped, "qkv"), saved(plain, "qkv"));
    EXPECT_NE(saved(dropped, "heads"), saved(plain, "heads"));

    // A branch of which an element was dropped adds nothing to it.
    const auto added_nothing = [](const std::vector<double>& before,
                                  const std::vector<double>& after) {
        std::vector<double> mask;
        for (std::size_t i = 0; i < before.size(); ++i)
            mask.push_back(before[i] == after[i] ? 1 : 0);
        return mask;
    };
    const auto share = [](const std::vector<double>& mask) {
        return dot(mask, mask) / static_cast<double>(mask.size());
    };
    const auto input = bench.read(dropped.of("inputs")[0]);
    const auto middle = saved(dropped, "middle");
    const auto first = added_nothing(input, middle);
    const auto second = added_nothing(middle, bench.read(dropped.of("outputs")[0]));
    EXPECT_NEAR(share(first), 0.3, 0.15);
    EXPECT_NEAR(share(second), 0.3, 0.15);
    EXPECT_NE(first, second);
    EXPECT_EQ(share(added_nothing(input, saved(plain, "middle"))), 0.0);
}

}  // namespace
}  // namespace rhizome::tests
