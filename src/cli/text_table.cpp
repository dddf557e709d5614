#include "cli/text_table.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/text.hpp"

namespace rhizome::cli {

void TextTable::add(std::vector<std::string> row) {
    ENSURE(row.size() == columns_.size());
    rows_.push_back(std::move(row));
}

std::vector<std::size_t> TextTable::widths() const {
    std::vector<std::size_t> widths;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
        std::size_t width = columns_[c].title.size();
        for (const auto& row : rows_) width = std::max(width, row[c].size());
        widths.push_back(width);
    }
    return widths;
}

std::string TextTable::line(const std::vector<std::string>& row,
                            const std::vector<std::size_t>& widths, std::size_t indent) const {
    std::string text(indent, ' ');
    for (std::size_t c = 0; c < row.size(); ++c) {
        if (c > 0) text += "  ";
        text += columns_[c].align == Align::right ? right_aligned(row[c], widths[c])
                                                  : padded(row[c], widths[c]);
    }
    return text.erase(text.find_last_not_of(' ') + 1) + "\n";
}

std::string TextTable::text(std::size_t indent) const {
    std::vector<std::string> titles;
    titles.reserve(columns_.size());
    for (const Column& column : columns_) titles.push_back(column.title);
    return line(titles, widths(), indent) + rows_text(indent);
}

std::string TextTable::rows_text(std::size_t indent) const {
    std::string text;
    for (const auto& row : rows_) text += line(row, widths(), indent);
    return text;
}

}  // namespace rhizome::cli
