#include "model/parameters.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "model/gpt.hpp"
#include "support/workbench.hpp"

namespace rhizome::tests {
namespace {

using device::Tensor;
using model::TensorSet;
using model::TiedTensors;
using testing::Each;
using testing::ExitedWithCode;

constexpr TensorRef token{LayerId{0}, 0};

model::GptConfig small_gpt(model::Tying tying) {
    return {.blocks = 2,
            .channels = 8,
            .heads = 2,
            .context = 5,
            .vocabulary = 11,
            .tying = tying,
            .dropout = 0.0};
}
model::Network small_network(DType dtype) {
    return model::make_gpt(small_gpt(model::Tying::tied), 1, dtype, 50);
}

TEST(TensorSet, HasATensorOfItsShapeForEveryParameter) {
    Workbench bench;
    const model::Network network = small_network(DType::f64);
    const TensorSet set{bench.device(), network.table(), TiedTensors::separate};
    for (std::int32_t layer = 0; layer < network.size(); ++layer) {
        const auto& parameters = network.table().layers[LayerId{layer}.index()].parameters;
        ASSERT_EQ(set.of(LayerId{layer}).size(), parameters.size());
        for (std::size_t i = 0; i < parameters.size(); ++i) {
            EXPECT_EQ(set.of(LayerId{layer})[i].shape, parameters[i].spec.shape);
            EXPECT_EQ(set.of(LayerId{layer})[i].dtype, DType::f64);
            const TensorRef ref{LayerId{layer}, static_cast<std::int32_t>(i)};
            EXPECT_EQ(set.at(ref).data, set.of(LayerId{layer})[i].data);
        }
    }
}

TEST(TensorSet, SharesOrSeparatesTiedTensors) {
    Workbench bench;
    const model::Network network = small_network(DType::f32);
    const TensorRef head{LayerId{network.size() - 1}, 0};
    const TensorSet shared{bench.device(), network.table(), TiedTensors::shared};
    const TensorSet separate{bench.device(), network.table(), TiedTensors::separate};
    EXPECT_EQ(shared.at(head).data, shared.at(token).data);
    EXPECT_NE(separate.at(head).data, separate.at(token).data);
    EXPECT_EQ(separate.at(head).shape, separate.at(token).shape);
}

TEST(TensorSet, KeepsTensorsApartAndCoversThemAllAsAWhole) {
    for (const DType dtype : {DType::f32, DType::f64}) {
        Workbench bench;
        const model::Network network = small_network(dtype);
        const TensorSet set{bench.device(), network.table(), TiedTensors::separate};
        bench.stream().zero(set.whole());
        double number = 0;
        for (std::int32_t layer = 0; layer < network.size(); ++layer) {
            for (const Tensor& tensor : set.of(LayerId{layer})) {
                EXPECT_THAT(bench.read(tensor), Each(0.0));
                bench.write(tensor, std::vector<double>(static_cast<std::size_t>(tensor.elements()),
                                                        ++number));
            }
        }
        number = 0;
        std::int64_t elements = 0;
        for (std::int32_t layer = 0; layer < network.size(); ++layer) {
            for (const Tensor& tensor : set.of(LayerId{layer})) {
                EXPECT_THAT(bench.read(tensor), Each(++number)) << "another was written over it";
                elements += tensor.elements();
            }
        }
        std::int64_t in_whole = 0;
        for (const double value : bench.read(set.whole())) in_whole += value != 0 ? 1 : 0;
        EXPECT_EQ(in_whole, elements);
    }
}

TEST(TensorSet, TakesTheMemoryThatItsPlanSays) {
    Workbench bench;
    const model::Network network = small_network(DType::f32);
    std::vector<std::int64_t> sizes;
    for (const TiedTensors tied : {TiedTensors::shared, TiedTensors::separate}) {
        const TensorSet set{bench.device(), network.table(), tied};
        EXPECT_EQ(TensorSet::planned_bytes(network.table(), tied), set.bytes());
        EXPECT_EQ(set.whole().bytes(), set.bytes());
        sizes.push_back(set.bytes());
    }
    // The head's copy: 11 x 8 numbers of 4 bytes, which fill lines of 64.
    EXPECT_EQ(sizes[1] - sizes[0], 384);
}

TEST(TensorSet, CutsTensorsIntoTheTablesChunks) {
    Workbench bench;
    const model::Network network = small_network(DType::f64);
    const TensorSet set{bench.device(), network.table(), TiedTensors::shared};
    const std::vector<double> values = random_numbers(11 * 8, 1);
    bench.write(set.at(token), values);
    const std::vector<double> last = bench.read(set.at(network.table(), ChunkRef{token, 1}));
    EXPECT_EQ(last, std::vector<double>(values.begin() + 50, values.end()));
}

TEST(TensorSetDeathTest, RefusesTensorsThatAreNotThere) {
    Workbench bench;
    const model::Network network = small_network(DType::f64);
    const TensorSet set{bench.device(), network.table(), TiedTensors::shared};
    EXPECT_EXIT((void)set.at({LayerId{5}, 0}), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT((void)set.at({LayerId{4}, 1}), ExitedWithCode(1), "broken promise");
}

/// A network with its initial parameters.
struct Initialized {
    explicit Initialized(const model::GptConfig& config, DType dtype = DType::f64,
                         std::uint64_t seed = 7)
        : network{model::make_gpt(config, 1, dtype, 1000)},
          parameters{bench.device(), network.table(), TiedTensors::shared} {
        bench.stream().zero(parameters.whole());
        initialize(bench.stream(), network, seed, parameters);
    }
    std::vector<double> read(TensorRef ref) { return bench.read(parameters.at(ref)); }
    [[nodiscard]] const LayerTable& table() const { return network.table(); }

    Workbench bench;
    model::Network network;
    TensorSet parameters;
};

model::GptConfig wide_gpt() {
    return {.blocks = 2,
            .channels = 64,
            .heads = 2,
            .context = 64,
            .vocabulary = 256,
            .tying = model::Tying::tied,
            .dropout = 0.0};
}

TEST(Initialize, GivesMatricesTheirDeviationsNormsOnesAndBiasesZeros) {
    Initialized run{wide_gpt()};
    for (const TensorRef ref : run.table().owned()) {
        const std::string name = run.table().name_of(ref);
        SCOPED_TRACE(name);
        const std::vector<double> values = run.read(ref);
        if (run.table().at(ref).spec.shape.dimensions() == 1) {
            EXPECT_THAT(values, Each(name.ends_with("weight") ? 1.0 : 0.0));
            continue;
        }
        const bool ends_a_branch =
            name.ends_with("projection.weight") || name.ends_with("contract.weight");
        const double deviation = ends_a_branch ? 0.02 / 2 : 0.02;  // sqrt(2 * 2 blocks) = 2
        const auto count = static_cast<double>(values.size());
        double mean = 0;
        double squares = 0;
        for (const double value : values) {
            mean += value / count;
            squares += value * value / count;
        }
        EXPECT_NEAR(mean, 0, 5 * deviation / std::sqrt(count));
        EXPECT_NEAR(std::sqrt(squares), deviation, 5 * deviation / std::sqrt(2 * count));
    }
}

TEST(Initialize, DrawsEachElementAtItsPlace) {
    Initialized run{wide_gpt()};
    const TensorRef attention{LayerId{2}, 2};
    ASSERT_EQ(run.table().name_of(attention), "block.1/attention.weight");
    const std::vector<double> values = run.read(attention);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const RandomSite site = RandomSite::initial(7, LayerId{2}, 2);
        const auto drawn = normals(site, static_cast<std::uint32_t>(i / 4));
        ASSERT_EQ(values[i], drawn[i % 4] * 0.02) << "element " << i;
    }
}

TEST(Initialize, DividesTheDeviationOfABranchsLastMatrixByTheRootOfTwiceTheBlocks) {
    const TensorRef projection{LayerId{1}, 4};
    model::GptConfig config = wide_gpt();
    Initialized two{config};
    config.blocks = 8;
    Initialized eight{config};
    ASSERT_EQ(two.table().name_of(projection), "block.0/projection.weight");
    const std::vector<double> large = two.read(projection);
    std::vector<double> small = eight.read(projection);
    for (double& value : small) value *= 2;  // sqrt(16) / sqrt(4)
    EXPECT_EQ(small, large);
}

TEST(Initialize, GivesTheSameBitsForTheSameSeedAndOthersForAnother) {
    const model::GptConfig config = small_gpt(model::Tying::untied);
    Initialized first{config};
    Initialized again{config};
    Initialized other{config, DType::f64, 8};
    for (const TensorRef ref : first.table().owned()) {
        EXPECT_EQ(again.read(ref), first.read(ref));
        if (first.table().at(ref).spec.shape.dimensions() == 1) continue;
        EXPECT_NE(other.read(ref), first.read(ref)) << first.table().name_of(ref);
    }
}

TEST(Initialize, GivesNoTwoMatricesTheSameNumbers) {
    Initialized run{small_gpt(model::Tying::untied)};
    std::set<double> ratios;  // of first to second element, free of the deviation
    std::size_t matrices = 0;
    for (const TensorRef ref : run.table().owned()) {
        if (run.table().at(ref).spec.shape.dimensions() == 1) continue;
        const std::vector<double> values = run.read(ref);
        ratios.insert(std::round(1e9 * values[0] / values[1]));
        ++matrices;
    }
    EXPECT_EQ(ratios.size(), matrices);
    EXPECT_EQ(matrices, 2U + 2 * 4 + 1);
}

TEST(Initialize, RoundsTheDoublesInSinglePrecision) {
    const model::GptConfig config = small_gpt(model::Tying::untied);
    Initialized in_double{config, DType::f64};
    Initialized in_single{config, DType::f32};
    for (const TensorRef ref : in_double.table().owned()) {
        std::vector<double> rounded = in_double.read(ref);
        for (double& value : rounded) value = static_cast<float>(value);
        EXPECT_EQ(in_single.read(ref), rounded) << in_double.table().name_of(ref);
    }
}

TEST(Initialize, LeavesNothingForATiedTensorToOverwrite) {
    // The head of a tied network has no numbers of its own: the token table keeps those of its
    // site.
    Initialized tied{small_gpt(model::Tying::tied)};
    Initialized untied{small_gpt(model::Tying::untied)};
    EXPECT_EQ(tied.read(token), untied.read(token));
    EXPECT_NE(untied.read({LayerId{4}, 0}), untied.read(token));
}

}  // namespace
}  // namespace rhizome::tests
