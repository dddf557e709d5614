#include "cli/command_line.hpp"

#include <algorithm>
#include <string_view>

#include "cli/values.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

namespace rhizome::cli {
namespace {

bool is_help(std::string_view word) { return word == "--help" || word == "-h"; }

ConfigError unknown_command(const std::string& word) {
    const std::vector<std::string> commands{"train", "--help", "--version"};
    const auto meant = nearest(word, commands);
    return ConfigError{"`" + shown(word) + "` (no such command), " +
                       (meant ? "did you mean " + *meant + "?"
                              : std::string{"`rhizome --help` lists what there is"})};
}

}  // namespace

Command parse_command_line(const Arguments& arguments, const Environment& environment,
                           const ReadFile& read_file) {
    if (arguments.empty()) return {Command::Kind::none};
    const std::string& word = arguments.front();
    const Arguments rest{arguments.begin() + 1, arguments.end()};
    if (word == "train") {
        if (std::any_of(rest.begin(), rest.end(), is_help)) return {Command::Kind::train_help};
        return {Command::Kind::train, parse_run_config(rest, environment, read_file)};
    }
    const bool version = word == "--version";
    if (!version && !is_help(word)) throw unknown_command(word);
    if (!rest.empty()) {
        throw ConfigError{"`" + shown(rest.front()) + "` (" + word +
                          " stands alone), leave it out"};
    }
    return {version ? Command::Kind::version : Command::Kind::help};
}

Environment environment_of(const char* const* variables) {
    Environment environment;
    for (; variables != nullptr && *variables != nullptr; ++variables) {
        const std::string_view entry{*variables};
        const std::size_t equals = std::min(entry.find('='), entry.size());
        environment.emplace_back(entry.substr(0, equals),
                                 entry.substr(std::min(equals + 1, entry.size())));
    }
    return environment;
}

}  // namespace rhizome::cli
