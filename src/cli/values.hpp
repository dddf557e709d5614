// Texts to values, strictly: what is not wholly a value of the wanted kind and range is none, and
// the answer says what would be. The same in every locale.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rhizome::cli {

/// What is wrong with a text, for the second and third part of "problem (reason), hint".
struct Problem {
    std::string reason;
    std::string hint;
};
using MaybeProblem = std::optional<Problem>;

struct WholeRange {
    std::int64_t low;
    std::int64_t high;
};

/// A set of numbers that two characters and two ends describe well enough to show it.
struct RealRange {
    std::string_view text;  // in [0, 1)
    bool (*contains)(double);
};

inline constexpr RealRange positive{"> 0", [](double x) { return x > 0; }};
inline constexpr RealRange not_negative{">= 0", [](double x) { return x >= 0; }};
inline constexpr RealRange below_one{"in [0, 1)", [](double x) { return x >= 0 && x < 1; }};

[[nodiscard]] std::string to_text(WholeRange range);  // 1..1024

/// Each sets `value`, or leaves it and says why.
[[nodiscard]] MaybeProblem read_whole(std::string_view text, WholeRange range, std::int64_t& value);
[[nodiscard]] MaybeProblem read_unsigned(std::string_view text, std::uint64_t& value);
[[nodiscard]] MaybeProblem read_real(std::string_view text, RealRange range, double& value);
/// Workers of each pipeline: "3,2" is one of three and one of two, "4x3" four of three, and so on.
[[nodiscard]] MaybeProblem read_depths(std::string_view text, std::vector<std::int32_t>& value);
/// The shortest text for them.
[[nodiscard]] std::string depths_text(const std::vector<std::int32_t>& depths);
/// A path or pattern that a configuration file can hold as well.
[[nodiscard]] MaybeProblem read_path(std::string_view text, std::string& value);

/// For messages: at most one short line, with control characters made visible.
[[nodiscard]] std::string shown(std::string_view text);

}  // namespace rhizome::cli
