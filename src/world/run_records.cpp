#include "world/run_records.hpp"

#include <sstream>
#include <string_view>

#include "core/text.hpp"

namespace rhizome::world {
namespace {

/// What follows `word` and a blank, up to the end of that line.
std::string value_of(std::string_view word, const std::string& text) {
    std::istringstream lines{text};
    const std::string begin = std::string{word} + " ";
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(begin)) return line.substr(begin.size());
    }
    return "";
}

}  // namespace

std::string to_text(const Ending& ending) {
    return "code " + std::to_string(static_cast<int>(ending.code)) + "\nreason " + ending.reason +
           "\n";
}

std::string to_text(const Recorded& process) {
    return "host " + process.host + "\npid " + std::to_string(process.pid) + "\nstarted " +
           std::to_string(process.started) + "\n";
}

std::optional<Ending> parse_ending(const std::string& text) {
    const auto code = parse_integer(value_of("code", text));
    if (!code || *code < 0 || *code > static_cast<int>(ExitCode::unsaved)) return std::nullopt;
    const Ending ending{static_cast<ExitCode>(*code), value_of("reason", text)};
    return to_text(ending) == text ? std::optional{ending} : std::nullopt;
}

std::optional<Recorded> parse_recorded(const std::string& name, const std::string& text) {
    const auto pid = parse_integer(value_of("pid", text));
    const auto started = parse_unsigned(value_of("started", text));
    if (!pid || *pid <= 0 || !started) return std::nullopt;
    const Recorded process{name, value_of("host", text), static_cast<pid_t>(*pid), *started};
    return to_text(process) == text ? std::optional{process} : std::nullopt;
}

}  // namespace rhizome::world
