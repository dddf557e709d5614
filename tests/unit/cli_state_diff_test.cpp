// Comparing states that were written in different ways.
#include "cli/state_diff.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/state_tables.hpp"
#include "cli/state_write.hpp"
#include "state/fake_disk.hpp"
#include "support/sample_state.hpp"

namespace rhizome::cli {
namespace {

using state::StoredTable;
using state::Value;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StateDiff : public ::testing::Test {
  protected:
    std::shared_ptr<state::FakeDisk> disk = std::make_shared<state::FakeDisk>();
    StoredTable table = state::sample_table();
    state::StateFacts facts = state::sample_facts(5);

    /// The sample's values, to be changed before they are written.
    std::vector<TensorValues> values() const {
        const state::SampleValues sample{table, 5};
        std::vector<TensorValues> all(table.tensors.size());
        for (std::size_t t = 0; t < all.size(); ++t) {
            for (std::size_t v = 0; v < all[t].size(); ++v) {
                const auto bytes = sample.of(static_cast<std::int32_t>(t), state::all_values[v]);
                all[t][v] = {bytes.begin(), bytes.end()};
            }
        }
        return all;
    }
    void write(const std::string& path, const std::vector<TensorValues>& all) {
        write_state(*disk, path, facts, table, all);
    }
    DiffReport compare(const std::string& a, const std::string& b, const DiffRule& rule = {}) {
        state::StateReader reader_a{disk, a};
        state::StateReader reader_b{disk, b};
        return compare_states(reader_a, reader_b, rule);
    }
    static void set(std::vector<std::byte>& values, std::size_t element, float number) {
        std::memcpy(values.data() + element * sizeof number, &number, sizeof number);
    }
};

TEST_F(StateDiff, ReadsNothingWhereDigestsAgree) {
    const std::string many = state::write_sample_state(*disk, "/many", 5, 4);
    write("/one", values());
    const DiffReport report = compare(many, "/one");
    EXPECT_TRUE(report.equal());
    EXPECT_EQ(report.values, 3 * table.parameters());
    EXPECT_EQ(report.values_read, 0);
    EXPECT_THAT(report.facts, IsEmpty());
}

TEST_F(StateDiff, ComparesAcrossDifferentChunks) {
    write("/a", values());
    table.chunk_elements = 7;
    write("/b", values());
    const DiffReport equal = compare("/a", "/b");
    EXPECT_TRUE(equal.equal());
    // The tensor of 7 elements is one chunk in both.
    EXPECT_EQ(equal.values_read, 3 * (table.parameters() - 7));
    ASSERT_EQ(equal.facts.size(), 1U);
    EXPECT_EQ(equal.facts[0].name, "elements of a chunk");

    auto changed = values();
    set(changed[0][1], 17, -1.0F);  // embedding/token, first moment
    write("/c", changed);
    const DiffReport report = compare("/a", "/c");
    ASSERT_EQ(report.tensors.size(), 1U);
    EXPECT_EQ(report.tensors[0].name, "embedding/token");
    EXPECT_EQ(report.tensors[0].value, Value::first_moment);
    EXPECT_EQ(report.tensors[0].numbers.differing(), 1);
    EXPECT_EQ(report.tensors[0].numbers.first(), 17);
    EXPECT_THAT(to_table(report), HasSubstr("[3, 2]"));
}

TEST_F(StateDiff, AsksAboutTheWantedValuesOnly) {
    write("/a", values());
    auto changed = values();
    set(changed[0][1], 0, -1.0F);
    write("/b", changed);
    EXPECT_FALSE(compare("/a", "/b").equal());
    const DiffReport report = compare("/a", "/b", {.values = {Value::parameter}});
    EXPECT_TRUE(report.equal());
    EXPECT_EQ(report.values, table.parameters());
}

TEST_F(StateDiff, AllowsForATolerance) {
    write("/a", values());
    auto changed = values();
    set(changed[0][0], 3, 50003.5F + 0.25F);
    write("/b", changed);
    EXPECT_FALSE(compare("/a", "/b").equal());
    EXPECT_FALSE(compare("/a", "/b", {.tolerance = 0.125}).equal());
    EXPECT_TRUE(compare("/a", "/b", {.tolerance = 0.25}).equal());
}

TEST_F(StateDiff, TellsOfTensorsThatAreNotTheSame) {
    write("/a", values());
    table.tensors[2].name = "block.0/other";
    table.tensors[3].shape = Shape{3, 2, 2, 4};
    write("/b", values());
    std::vector<std::string> told;
    for (const TensorDifference& each : compare("/a", "/b").tensors) {
        told.push_back(each.name + ": " + each.mismatch);
    }
    EXPECT_THAT(told, ElementsAre("block.0/attention.bias: in A only",
                                  "block.0/filter: f32 (2, 3, 2, 4) in A, f32 (3, 2, 2, 4) in B",
                                  "block.0/other: in B only"));
}

TEST_F(StateDiff, TellsWhatTheStatesSayDifferentlyAndLetsTheValuesDecide) {
    write("/a", values());
    facts.steps = 6;
    facts.mathematics = "layers = 3\nwidth = 4\n";
    write("/b", values());
    facts.layout = "";
    write("/imported", values());
    const DiffReport report = compare("/a", "/b");
    EXPECT_TRUE(report.equal());
    std::vector<std::string> told;
    for (const FactDifference& each : report.facts) {
        told.push_back(each.name + ": " + each.a + " | " + each.b);
    }
    EXPECT_THAT(told,
                ElementsAre("trained steps: 5 | 6", "layers: 2 | 3", "seed: 7 | ", "width:  | 4"));
    EXPECT_THAT(compare("/b", "/imported").facts, IsEmpty());
}

}  // namespace
}  // namespace rhizome::cli
