#include "cli/key_lines.hpp"

#include <algorithm>

namespace rhizome::cli {

std::map<std::string, std::string> parse_key_lines(std::string_view text) {
    constexpr std::string_view between = " = ";
    std::map<std::string, std::string> values;
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        const std::size_t equals = line.find(between);
        if (equals == std::string_view::npos) continue;
        values[std::string{line.substr(0, equals)}] = line.substr(equals + between.size());
    }
    return values;
}

}  // namespace rhizome::cli
