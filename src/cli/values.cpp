#include "cli/values.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "core/text.hpp"

namespace rhizome::cli {
namespace {

constexpr std::string_view blanks = " \t\r\n\v\f";

std::string without(std::string_view text, std::string_view unwanted) {
    std::string rest;
    for (const char c : text) {
        if (unwanted.find(c) == std::string_view::npos) rest += c;
    }
    return rest;
}

bool is_digits(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<std::int64_t> parse_hexadecimal(std::string_view text) {
    if (!text.starts_with("0x") && !text.starts_with("0X")) return std::nullopt;
    std::int64_t value{};
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + 2, end, value, 16);
    if (error != std::errc{} || stop != end) return std::nullopt;
    return value;
}

/// The whole number that was probably meant by a text that is none: 1e3, 4.0, +4, 0x10, 10_000.
std::optional<std::int64_t> guess_whole(std::string_view text) {
    const std::string bare = without(text, std::string{blanks} + "+_'");
    if (const auto whole = parse_integer(bare)) return whole;
    if (const auto hexadecimal = parse_hexadecimal(bare)) return hexadecimal;
    constexpr double exact = 9007199254740992.0;  // 2^53: from here on doubles skip whole numbers
    const auto number = parse_number(bare);
    if (!number || std::floor(*number) != *number || std::abs(*number) >= exact) {
        return std::nullopt;
    }
    return static_cast<std::int64_t>(*number);
}

Problem no_whole_number(std::string_view text, const std::string& hint) {
    const bool blank = text.find_first_of(blanks) != std::string_view::npos;
    return {blank ? "no whole number: blanks inside" : "no whole number", hint};
}

}  // namespace

std::string to_text(WholeRange range) {
    return std::to_string(range.low) + ".." + std::to_string(range.high);
}

MaybeProblem read_whole(std::string_view text, WholeRange range, std::int64_t& value) {
    const auto inside = [range](std::int64_t x) { return x >= range.low && x <= range.high; };
    const std::string range_text = to_text(range);
    if (const auto parsed = parse_integer(text)) {
        if (!inside(*parsed)) {
            return Problem{"outside " + range_text, "take a whole number in that range"};
        }
        value = *parsed;
        return std::nullopt;
    }
    const bool negative = text.starts_with('-');
    if (is_digits(text.substr(negative ? 1 : 0))) {
        return Problem{"outside " + range_text, "take a whole number in that range"};
    }
    if (const auto guess = guess_whole(text); guess && inside(*guess)) {
        return no_whole_number(text, "write " + std::to_string(*guess));
    }
    return no_whole_number(text, "take one in " + range_text);
}

MaybeProblem read_unsigned(std::string_view text, std::uint64_t& value) {
    const std::string range_text =
        "0.." + std::to_string(std::numeric_limits<std::uint64_t>::max());
    if (const auto parsed = parse_unsigned(text)) {
        value = *parsed;
        return std::nullopt;
    }
    if (is_digits(text) || parse_integer(text)) {
        return Problem{"outside " + range_text, "take a whole number in that range"};
    }
    if (const auto guess = guess_whole(text); guess && *guess >= 0) {
        return no_whole_number(text, "write " + std::to_string(*guess));
    }
    return no_whole_number(text, "take one in " + range_text);
}

MaybeProblem read_real(std::string_view text, RealRange range, double& value) {
    const std::string range_text{range.text};
    if (const auto parsed = parse_number(text)) {
        if (!range.contains(*parsed)) {
            return Problem{"must be " + range_text, "take a number in that range"};
        }
        value = *parsed + 0.0;  // -0 becomes 0, for one number must not have two texts
        return std::nullopt;
    }
    std::string bare = without(text, std::string{blanks} + "+_'");
    if (const std::size_t comma = bare.find(','); comma != std::string::npos) bare[comma] = '.';
    const auto guess = parse_number(bare);
    if (guess && range.contains(*guess)) {
        return Problem{"no number: write digits, a point and e alone",
                       "write " + rhizome::to_text(*guess)};
    }
    return Problem{"no finite number", "take one " + range_text};
}

MaybeProblem read_depths(std::string_view text, std::vector<std::int32_t>& value) {
    constexpr WholeRange range{1, 4096};
    std::vector<std::int32_t> depths;
    while (true) {
        const std::size_t comma = std::min(text.find(','), text.size());
        std::string_view entry = text.substr(0, comma);
        std::int64_t count = 1;
        std::int64_t depth = 0;
        if (const std::size_t times = entry.find('x'); times != std::string_view::npos) {
            if (auto problem = read_whole(entry.substr(0, times), range, count)) return problem;
            entry.remove_prefix(times + 1);
        }
        if (auto problem = read_whole(entry, range, depth)) return problem;
        if (std::cmp_greater(depths.size() + static_cast<std::size_t>(count), range.high)) {
            return Problem{"more than " + std::to_string(range.high) + " pipelines", "take fewer"};
        }
        depths.insert(depths.end(), static_cast<std::size_t>(count),
                      static_cast<std::int32_t>(depth));
        if (comma == text.size()) break;
        text.remove_prefix(comma + 1);
    }
    value = std::move(depths);
    return std::nullopt;
}

std::string depths_text(const std::vector<std::int32_t>& depths) {
    std::string text;
    for (std::size_t i = 0; i < depths.size();) {
        std::size_t end = i;
        while (end < depths.size() && depths[end] == depths[i]) ++end;
        if (!text.empty()) text += ",";
        if (end - i > 1) text += std::to_string(end - i) + "x";
        text += std::to_string(depths[i]);
        i = end;
    }
    return text;
}

MaybeProblem read_path(std::string_view text, std::string& value) {
    const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; };
    if (text.find('#') != std::string_view::npos) {
        return Problem{"# starts a comment in a configuration file", "rename the file"};
    }
    if (std::any_of(text.begin(), text.end(), is_control)) {
        return Problem{"control characters in a path", "rename the file"};
    }
    if (text.starts_with(' ') || text.ends_with(' ')) {
        return Problem{"blanks at an end of a path", "leave them out"};
    }
    value = text;
    return std::nullopt;
}

std::string shown(std::string_view text) {
    constexpr std::size_t length_max = 120;
    const std::string line = visible(text.substr(0, length_max));
    return line.size() < length_max ? line : line.substr(0, length_max) + "...";
}

}  // namespace rhizome::cli
