#include "core/layer_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rhizome {
namespace {

using testing::ElementsAre;
using testing::ExitedWithCode;

TensorRef ref(std::int32_t layer, std::int32_t tensor) { return {LayerId{layer}, tensor}; }
ChunkRef chunk(std::int32_t layer, std::int32_t tensor, std::int32_t number) {
    return {ref(layer, tensor), number};
}

/// Two layers with weights of their own, one that uses the first one's again, and one without any.
/// Chunks of 10: `table` has 21 elements, `bias` exactly 20.
LayerTable small_table() {
    LayerTable table{.layers = {}, .chunk_elements = 10};
    table.layers.push_back({.name = "first",
                            .parameters = {{.spec = {"table", Shape{7, 3}}, .decay = Decay::weight},
                                           {.spec = {"bias", Shape{20}}}},
                            .outputs = {},
                            .fields = {},
                            .costs = {}});
    table.layers.push_back(
        {.name = "empty", .parameters = {}, .outputs = {}, .fields = {}, .costs = {}});
    table.layers.push_back({.name = "second",
                            .parameters = {{.spec = {"weight", Shape{9}}}},
                            .outputs = {},
                            .fields = {},
                            .costs = {}});
    table.layers.push_back({.name = "last",
                            .parameters = {{.spec = {"bias", Shape{1}}},
                                           {.spec = {"again", Shape{7, 3}},
                                            .decay = Decay::weight,
                                            .tied_to = ref(0, 0)}},
                            .outputs = {},
                            .fields = {},
                            .costs = {}});
    return table;
}

TEST(LayerTable, NamesTensorsByLayerAndTensor) {
    const LayerTable table = small_table();
    EXPECT_EQ(table.name_of(ref(0, 0)), "first/table");
    EXPECT_EQ(table.name_of(ref(2, 0)), "second/weight");
    EXPECT_EQ(table.name_of(ref(3, 1)), "last/again");
    EXPECT_EQ(table.at(ref(0, 1)).spec.name, "bias");
    EXPECT_EQ(table.at(ref(3, 1)).decay, Decay::weight);
}

TEST(LayerTable, ListsOwnedTensorsInTheOrderOfTheirIdentityWithoutTiedOnes) {
    EXPECT_THAT(small_table().owned(), ElementsAre(ref(0, 0), ref(0, 1), ref(2, 0), ref(3, 0)));
}

TEST(LayerTable, FindsTheOwnerOfATiedTensorAndAllItsUses) {
    const LayerTable table = small_table();
    EXPECT_EQ(table.owner_of(ref(3, 1)), ref(0, 0));
    EXPECT_EQ(table.owner_of(ref(0, 0)), ref(0, 0));
    EXPECT_EQ(table.owner_of(ref(3, 0)), ref(3, 0));
    EXPECT_THAT(table.uses_of(ref(0, 0)), ElementsAre(ref(0, 0), ref(3, 1)));
    EXPECT_THAT(table.uses_of(ref(2, 0)), ElementsAre(ref(2, 0)));
}

TEST(LayerTable, CutsTensorsIntoChunksTheLastOfWhichMayBeShort) {
    const LayerTable table = small_table();
    EXPECT_EQ(table.chunks_of(ref(0, 0)), 3);
    EXPECT_EQ(table.first_element_of(chunk(0, 0, 0)), 0);
    EXPECT_EQ(table.elements_of(chunk(0, 0, 0)), 10);
    EXPECT_EQ(table.first_element_of(chunk(0, 0, 2)), 20);
    EXPECT_EQ(table.elements_of(chunk(0, 0, 2)), 1);

    EXPECT_EQ(table.chunks_of(ref(0, 1)), 2) << "no empty chunk behind a full one";
    EXPECT_EQ(table.elements_of(chunk(0, 1, 1)), 10);
    EXPECT_EQ(table.chunks_of(ref(2, 0)), 1);
    EXPECT_EQ(table.elements_of(chunk(2, 0, 0)), 9);
}

TEST(LayerTable, CoversEachTensorOnceForEveryChunkSize) {
    LayerTable table = small_table();
    for (table.chunk_elements = 1; table.chunk_elements <= 25; ++table.chunk_elements) {
        for (const TensorRef tensor : table.owned()) {
            std::int64_t next = 0;
            for (std::int32_t i = 0; i < table.chunks_of(tensor); ++i) {
                EXPECT_EQ(table.first_element_of({tensor, i}), next);
                EXPECT_GT(table.elements_of({tensor, i}), 0);
                next += table.elements_of({tensor, i});
            }
            EXPECT_EQ(next, table.at(tensor).spec.shape.elements());
        }
    }
}

TEST(LayerTable, CountsChunksOfTensorsBeyondTwoToThe31Elements) {
    LayerTable table = small_table();
    table.layers[2].parameters[0].spec.shape = Shape{1 << 20, 1 << 14};
    table.chunk_elements = 1 << 20;
    EXPECT_EQ(table.chunks_of(ref(2, 0)), 1 << 14);
    EXPECT_EQ(table.first_element_of(chunk(2, 0, (1 << 14) - 1)), (16383LL << 20));
}

TEST(LayerTable, CountsEachParameterOnce) {
    EXPECT_EQ(small_table().parameters(), 21 + 20 + 9 + 1);
}

TEST(LayerTable, OrdersIdentitiesByLayerThenTensorThenChunk) {
    EXPECT_LT(ref(0, 5), ref(1, 0));
    EXPECT_LT(ref(1, 0), ref(1, 1));
    EXPECT_LT(chunk(1, 0, 9), chunk(1, 1, 0));
    EXPECT_LT(chunk(1, 1, 0), chunk(1, 1, 1));
}

TEST(LayerTableDeathTest, RefusesWhatIsNotThere) {
    const LayerTable table = small_table();
    EXPECT_EXIT((void)table.at(ref(4, 0)), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT((void)table.at(ref(1, 0)), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT((void)table.at(ref(0, 2)), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT((void)table.at(ref(0, -1)), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT((void)table.first_element_of(chunk(0, 0, 3)), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT((void)table.elements_of(chunk(0, 0, -1)), ExitedWithCode(1), "broken promise");
}

}  // namespace
}  // namespace rhizome
