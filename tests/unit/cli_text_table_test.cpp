#include "cli/text_table.hpp"

#include <gtest/gtest.h>

namespace rhizome::cli {
namespace {

TEST(TextTable, HasColumnsAsWideAsTheirWords) {
    TextTable table{{{"name"}, {"size", Align::right}, {""}}};
    table.add({"a", "12345", "whole"});
    table.add({"longer", "7", ""});
    EXPECT_EQ(table.text(2),
              "  name     size\n"
              "  a       12345  whole\n"
              "  longer      7\n");
    EXPECT_EQ(table.rows_text(),
              "a       12345  whole\n"
              "longer      7\n");
}

TEST(TextTable, WithoutRowsHasItsTitles) {
    EXPECT_EQ((TextTable{{{"a"}, {"b"}}}).text(), "a  b\n");
}

}  // namespace
}  // namespace rhizome::cli
