// How a list of layers becomes a network: wires, ties, and the table that the pure rooms read.
#include "model/network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rhizome::model {
namespace {

using testing::ElementsAre;
using testing::ExitedWithCode;
using testing::IsEmpty;

/// A layer that is all spec.
class Idle final : public Layer {
  public:
    using Layer::Layer;
    void forward(device::Stream&, const Pass&, const LayerTensors&) const override {}
    void backward_input(device::Stream&, const Pass&, const LayerTensors&) const override {}
    void backward_weight(device::Stream&, const Pass&, const LayerTensors&) const override {}
};

Network network_of(const std::vector<LayerSpec>& specs) {
    std::vector<std::unique_ptr<Layer>> layers;
    for (const LayerSpec& spec : specs) {
        const LayerId id{static_cast<std::int32_t>(layers.size())};
        layers.push_back(std::make_unique<Idle>(spec, id));
    }
    return Network{std::move(layers), 10};
}

TensorSpec wire(const std::string& name, std::int64_t size = 2) {
    return {name, Shape{size}, DType::f32};
}
WireValue value(std::int32_t writer, std::int32_t output) { return {LayerId{writer}, output}; }
std::vector<std::string> names_of(const std::vector<TensorSpec>& specs) {
    std::vector<std::string> names;
    for (const TensorSpec& spec : specs) names.push_back(spec.name);
    return names;
}

/// a: written, replaced by `middle`, ended by `both`. b: passes by until two layers read it.
/// c: from `middle` to `pass`. d: from `both` to the loss.
std::vector<LayerSpec> five_layers() {
    std::vector<LayerSpec> specs(5);
    specs[0] = {.name = "start",
                .parameters = {},
                .fields = {"tokens"},
                .reads = {},
                .writes = {wire("a", 2), wire("b", 3)},
                .ends = {},
                .saved = {},
                .deferred = {},
                .scratch = {}};
    specs[1].name = "middle";
    specs[1].reads = {"a"};
    specs[1].writes = {wire("a", 5), wire("c", 7)};
    specs[2].name = "pass";
    specs[2].reads = {"c"};
    specs[2].ends = {"c"};
    specs[3].name = "both";
    specs[3].reads = {"b", "a"};
    specs[3].writes = {wire("d", 11)};
    specs[3].ends = {"a"};
    specs[4].name = "loss";
    specs[4].reads = {"d", "b"};
    specs[4].ends = {"b", "d"};
    specs[4].loss = Loss::adds;
    return specs;
}

TEST(Wires, BringEachLayerTheNewestValueInTheOrderOfItsReads) {
    const Network network = network_of(five_layers());
    EXPECT_EQ(network.size(), 5);
    EXPECT_THAT(network.values_read(LayerId{0}), IsEmpty());
    EXPECT_THAT(network.values_read(LayerId{1}), ElementsAre(value(0, 0)));
    EXPECT_THAT(network.values_read(LayerId{2}), ElementsAre(value(1, 1)));
    EXPECT_THAT(network.values_read(LayerId{3}), ElementsAre(value(0, 1), value(1, 0)));
    EXPECT_THAT(network.values_read(LayerId{4}), ElementsAre(value(3, 0), value(0, 1)));
}

TEST(Wires, CrossACutInTheOrderInWhichTheirNamesWereFirstWritten) {
    const Network network = network_of(five_layers());
    EXPECT_THAT(network.values_behind(LayerId{0}), ElementsAre(value(0, 0), value(0, 1)));
    EXPECT_THAT(network.values_behind(LayerId{1}),
                ElementsAre(value(1, 0), value(0, 1), value(1, 1)));
    EXPECT_THAT(network.values_behind(LayerId{2}), ElementsAre(value(1, 0), value(0, 1)));
    EXPECT_THAT(network.values_behind(LayerId{3}), ElementsAre(value(0, 1), value(3, 0)));
    EXPECT_THAT(network.values_behind(LayerId{4}), IsEmpty());
}

TEST(Wires, AreReadLastWhereTheTableOfReadsEnds) {
    const Network network = network_of(five_layers());
    EXPECT_EQ(network.last_reader(value(0, 0)), LayerId{1}) << "the old value of a";
    EXPECT_EQ(network.last_reader(value(1, 0)), LayerId{3}) << "the new value of a";
    EXPECT_EQ(network.last_reader(value(0, 1)), LayerId{4}) << "the later of two readers";
    EXPECT_EQ(network.last_reader(value(1, 1)), LayerId{2});
    EXPECT_EQ(network.last_reader(value(3, 0)), LayerId{4});
}

TEST(WiresDeathTest, MustHaveAReader) {
    std::vector<LayerSpec> specs = five_layers();
    specs[2].reads = {};
    EXPECT_EXIT(network_of(specs), testing::ExitedWithCode(1), "broken promise");
}

TEST(WiresDeathTest, CannotBeReadTwiceByOneLayer) {
    std::vector<LayerSpec> specs = five_layers();
    specs[2].reads.push_back(specs[2].reads.front());
    EXPECT_EXIT(network_of(specs), testing::ExitedWithCode(1), "broken promise");
}

TEST(Wires, ThatEndAndBeginAgainInOneLayerAreNew) {
    std::vector<LayerSpec> specs = five_layers();
    specs[1].ends = {"a"};
    const Network network = network_of(specs);
    EXPECT_THAT(network.values_read(LayerId{1}), ElementsAre(value(0, 0)));
    EXPECT_THAT(network.values_behind(LayerId{1}),
                ElementsAre(value(0, 1), value(1, 0), value(1, 1)));
}

TEST(Table, ListsTheWiresThatCrossEachCutWithTheShapesOfTheirNewestValues) {
    const Network network = network_of(five_layers());
    const auto& layers = network.table().layers;
    EXPECT_THAT(names_of(layers[0].outputs), ElementsAre("a", "b"));
    EXPECT_THAT(names_of(layers[1].outputs), ElementsAre("a", "b", "c"));
    EXPECT_THAT(layers[1].outputs, ElementsAre(wire("a", 5), wire("b", 3), wire("c", 7)));
    EXPECT_THAT(names_of(layers[2].outputs), ElementsAre("a", "b"));
    EXPECT_THAT(names_of(layers[3].outputs), ElementsAre("b", "d"));
    EXPECT_THAT(layers[4].outputs, IsEmpty());
    EXPECT_EQ(layers[1].costs.output_bytes, 4 * (5 + 3 + 7));
    EXPECT_EQ(layers[4].costs.output_bytes, 0);
    EXPECT_THAT(layers[0].fields, ElementsAre("tokens"));
}

TEST(Table, TakesNamesAndCostsFromTheSpecs) {
    std::vector<LayerSpec> specs = five_layers();
    specs[2].saved = {wire("s", 3), {"t", Shape{2}, DType::f64}};
    specs[2].deferred = {wire("u", 5)};
    specs[2].scratch = {wire("v", 100)};
    specs[2].forward_flops = 10;
    specs[2].backward_input_flops = 20;
    specs[2].backward_weight_flops = 30;
    const Network network = network_of(specs);
    const LayerFacts& facts = network.table().layers[2];
    EXPECT_EQ(facts.name, "pass");
    EXPECT_EQ(facts.costs.saved_bytes, 3 * 4 + 2 * 8);
    EXPECT_EQ(facts.costs.deferred_bytes, 20);
    EXPECT_EQ(facts.costs.forward_flops, 10);
    EXPECT_EQ(facts.costs.backward_input_flops, 20);
    EXPECT_EQ(facts.costs.backward_weight_flops, 30);
    EXPECT_EQ(network.table().chunk_elements, 10);
}

ParameterSpec parameter(const std::string& name, std::int64_t size, Decay decay = Decay::none) {
    return {.spec = wire(name, size), .decay = decay};
}
ParameterSpec tied(const std::string& name, std::int64_t size, const std::string& to) {
    ParameterSpec spec = parameter(name, size);
    spec.tied_to = to;
    return spec;
}

TEST(Table, FindsTheOwnersOfTiedTensors) {
    std::vector<LayerSpec> specs = five_layers();
    specs[0].parameters = {parameter("bias", 1), parameter("table", 6, Decay::weight)};
    specs[3].parameters = {tied("again", 6, "start/table")};
    specs[4].parameters = {tied("weight", 6, "start/table"), parameter("bias", 2)};
    const Network network = network_of(specs);
    const LayerTable& table = network.table();
    const TensorRef owner{LayerId{0}, 1};
    EXPECT_EQ(table.at({LayerId{3}, 0}).tied_to, owner);
    EXPECT_THAT(table.uses_of(owner),
                ElementsAre(owner, TensorRef{LayerId{3}, 0}, TensorRef{LayerId{4}, 0}));
    EXPECT_EQ(table.parameters(), 1 + 6 + 2);
    EXPECT_EQ(table.at(owner).decay, Decay::weight);
    EXPECT_EQ(table.name_of({LayerId{4}, 1}), "loss/bias");
}

class WrongNetworkDeathTest : public testing::Test {
  protected:
    void expect_refused() {
        EXPECT_EXIT((void)network_of(specs), ExitedWithCode(1), "broken promise");
    }

    std::vector<LayerSpec> specs = five_layers();
};

TEST_F(WrongNetworkDeathTest, ReadsAWireThatNobodyWrites) {
    specs[2].reads = {"c", "e"};
    expect_refused();
}

TEST_F(WrongNetworkDeathTest, ReadsAWireThatHasEnded) {
    specs[3].reads = {"b", "a", "c"};
    expect_refused();
}

TEST_F(WrongNetworkDeathTest, ReadsAWireThatIsWrittenOnlyLater) {
    specs[2].reads = {"c", "d"};
    expect_refused();
}

TEST_F(WrongNetworkDeathTest, EndsAWireThatIsNotThere) {
    specs[2].ends = {"c", "d"};
    expect_refused();
}

TEST_F(WrongNetworkDeathTest, LeavesAWireOpenAtItsEnd) {
    specs[4].ends = {"d"};
    expect_refused();
}

TEST_F(WrongNetworkDeathTest, HasALossInTheMiddle) {
    specs[2].loss = Loss::adds;
    expect_refused();
}

TEST_F(WrongNetworkDeathTest, HasNoLossAtItsEnd) {
    specs[4].loss = Loss::none;
    expect_refused();
}

TEST_F(WrongNetworkDeathTest, TiesToATensorThatDoesNotExist) {
    specs[0].parameters = {parameter("table", 6)};
    specs[4].parameters = {tied("weight", 6, "start/tabel")};
    expect_refused();
}

TEST_F(WrongNetworkDeathTest, TiesToALaterTensor) {
    specs[0].parameters = {tied("table", 6, "loss/weight")};
    specs[4].parameters = {parameter("weight", 6)};
    expect_refused();
}

TEST_F(WrongNetworkDeathTest, TiesTensorsOfDifferentShapes) {
    specs[0].parameters = {parameter("table", 6)};
    specs[4].parameters = {tied("weight", 7, "start/table")};
    expect_refused();
}

TEST_F(WrongNetworkDeathTest, NamesTwoTensorsAlike) {
    specs[0].parameters = {parameter("table", 6), parameter("table", 6)};
    expect_refused();
}

TEST_F(WrongNetworkDeathTest, HasNoLayers) {
    specs.clear();
    expect_refused();
}

TEST_F(WrongNetworkDeathTest, NumbersItsLayersWrongly) {
    const auto misnumbered = [&] {
        std::vector<std::unique_ptr<Layer>> layers;
        for (const LayerSpec& spec : specs)
            layers.push_back(std::make_unique<Idle>(spec, LayerId{0}));
        return Network{std::move(layers), 10};
    };
    EXPECT_EXIT((void)misnumbered(), ExitedWithCode(1), "broken promise");
}

TEST_F(WrongNetworkDeathTest, IsNotWhatTheseTestsStartFrom) {
    EXPECT_EQ(network_of(specs).size(), 5);
    specs[0].parameters = {parameter("table", 6)};
    specs[4].parameters = {tied("weight", 6, "start/table")};
    EXPECT_EQ(network_of(specs).table().parameters(), 6);
}

}  // namespace
}  // namespace rhizome::model
