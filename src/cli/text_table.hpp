// Rows of words under each other, in columns that are as wide as need be.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace rhizome::cli {

enum class Align : std::uint8_t { left, right };

class TextTable {
  public:
    struct Column {
        std::string title;
        Align align = Align::left;
    };

    explicit TextTable(std::vector<Column> columns) : columns_{std::move(columns)} {}

    /// A word for each column.
    void add(std::vector<std::string> row);
    /// Titles and rows, each line indented; two blanks between columns, none at a line's end.
    [[nodiscard]] std::string text(std::size_t indent = 0) const;
    /// Without titles.
    [[nodiscard]] std::string rows_text(std::size_t indent = 0) const;

  private:
    [[nodiscard]] std::vector<std::size_t> widths() const;
    [[nodiscard]] std::string line(const std::vector<std::string>& row,
                                   const std::vector<std::size_t>& widths,
                                   std::size_t indent) const;

    std::vector<Column> columns_;
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace rhizome::cli
