// The keys that a state says it was trained with: lines of `key = value`.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace rhizome::cli {

/// What is no such line is left out.
[[nodiscard]] std::map<std::string, std::string> parse_key_lines(std::string_view text);

}  // namespace rhizome::cli
