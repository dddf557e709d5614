// Reads drawings out of header comments, so that a test can hold them against the code.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace rhizome::tests {

/// A file below src/.
inline std::string read_source(const std::string& file) {
    std::ifstream in{std::string{RHIZOME_TESTS} + "/../src/" + file};
    EXPECT_TRUE(in.is_open()) << file;
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

/// What stands behind `//` or `///`, or nothing if the line is no comment.
inline std::string comment_of(std::string_view line) {
    const std::size_t first = line.find_first_not_of(' ');
    if (first == std::string_view::npos || !line.substr(first).starts_with("//")) return "";
    const std::size_t behind = line.find_first_not_of('/', first);
    return behind == std::string_view::npos ? "" : std::string{line.substr(behind)};
}

/// The first indented block of a comment behind the line with `marker`, of which there must be one,
/// without its indentation. Text stands one blank behind the slashes, a drawing at least two; it
/// ends with an empty line, with text, or with the comment. So with the marker "One forward":
///
///   /// One forward, one backward. A column is one tick:
///   ///
///   ///   stage 0 | F0 .. .. B0
///   ///   stage 1 | .. F0 B0
///   ///
inline std::string comment_drawing(std::string_view source, std::string_view marker) {
    std::vector<std::string> drawing;
    std::size_t indentation = std::string::npos;
    int markers = 0;
    bool wanted = false;
    std::stringstream lines{std::string{source}};
    for (std::string line; std::getline(lines, line);) {
        const std::string comment = comment_of(line);
        if (comment.find(marker) != std::string::npos) {
            ++markers;
            wanted = drawing.empty();
            continue;
        }
        const std::size_t first = comment.find_first_not_of(' ');
        const bool is_drawing = first != std::string::npos && first >= 2;
        const bool ends_comment = line.find("//") == std::string::npos;
        if (wanted && is_drawing) {
            drawing.push_back(comment);
            indentation = std::min(indentation, first);
        } else if (!drawing.empty() || ends_comment) {
            wanted = false;
        }
    }
    EXPECT_EQ(markers, 1) << marker;
    EXPECT_FALSE(drawing.empty()) << "no drawing behind " << marker;
    std::string text;
    for (const std::string& line : drawing) text += line.substr(indentation) + "\n";
    return text;
}

}  // namespace rhizome::tests
