#include "cli/folder_options.hpp"

#include <chrono>

#include "cli/values.hpp"
#include "core/error.hpp"

namespace rhizome::cli {
namespace {

constexpr RealRange seconds_range{"in (0, 1e6]", [](double x) { return x > 0 && x <= 1e6; }};
constexpr std::string_view within = "--within";

Nanoseconds read_seconds(const std::string& text) {
    double seconds = 0;
    if (const auto problem = read_real(text, seconds_range, seconds)) {
        throw ConfigError{"--within=" + shown(text) + " (" + problem->reason + "), " +
                          problem->hint};
    }
    return to_nanoseconds(seconds);
}

/// Of `--within SECONDS` or `--within=SECONDS` at `at`, which is moved to its last word.
std::string value_of_within(const Arguments& arguments, std::size_t& at) {
    if (arguments[at] != within) return arguments[at].substr(within.size() + 1);
    if (++at == arguments.size()) {
        throw ConfigError{"--within (has no value), write --within SECONDS"};
    }
    return arguments[at];
}

}  // namespace

FolderOptions parse_folder_options(const std::string& command, const Arguments& arguments,
                                   const std::set<std::string>& switches) {
    FolderOptions options;
    std::optional<std::string> seconds;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const std::string& word = arguments[i];
        if (switches.contains(word)) {
            options.switches.insert(word);
        } else if (word == within || word.starts_with(std::string{within} + "=")) {
            if (seconds) throw ConfigError{"--within (given before), keep one"};
            seconds = value_of_within(arguments, i);
        } else if (word.starts_with('-')) {
            throw ConfigError{"`" + shown(word) + "` (no such flag), `rhizome " + command +
                              " --help` lists all"};
        } else if (word.empty() || !options.folder.empty()) {
            throw ConfigError{"`" + shown(word) + "` (one run's folder is wanted), name just one"};
        } else {
            options.folder = word;
        }
    }
    if (options.folder.empty()) {
        throw ConfigError{"rhizome " + command + " (which run?), name its folder: rhizome " +
                          command + " FOLDER"};
    }
    if (seconds) options.within = read_seconds(*seconds);
    return options;
}

}  // namespace rhizome::cli
