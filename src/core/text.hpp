// Numbers to text and back, the same in every locale, and strict: what is not wholly a number of
// the wanted kind is no number.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rhizome {

/// Decimal digits, for signed numbers a leading minus; nothing else, no overflow.
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view text);
[[nodiscard]] std::optional<std::uint64_t> parse_unsigned(std::string_view text);
/// A finite number in fixed or scientific notation.
[[nodiscard]] std::optional<double> parse_number(std::string_view text);

/// The shortest text that parses back to the same value.
[[nodiscard]] std::string to_text(double value);
/// With that many digits behind the point.
[[nodiscard]] std::string to_fixed(double value, int digits);
/// With three significant digits: 0.001, 2.35e-05.
[[nodiscard]] std::string to_text_short(double value);
/// 950, 12.3k, 124.4M, 6.7G.
[[nodiscard]] std::string to_short(double value);
/// 7 s, 1:05, 2:03:09.
[[nodiscard]] std::string to_duration(double seconds);

/// 1 layer, 2 layers.
[[nodiscard]] std::string counted(std::int64_t number, std::string_view noun);

/// With blanks on the right, or on the left, up to that width.
[[nodiscard]] std::string padded(std::string text, std::size_t width);
[[nodiscard]] std::string right_aligned(const std::string& text, std::size_t width);

/// With control characters, which could end a line or move a cursor, as \x1b and the like.
[[nodiscard]] std::string visible(std::string_view text);

/// The candidate at the smallest edit distance, if it is near enough to be what was meant.
[[nodiscard]] std::optional<std::string> nearest(std::string_view word,
                                                 std::span<const std::string> candidates);

}  // namespace rhizome
