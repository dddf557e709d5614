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
    const std::vector<std::string> commands{"train",    "run",     "stop",   "save",
                                            "generate", "profile", "--help", "--version"};
    const auto meant = nearest(word, commands);
    return ConfigError{"`" + shown(word) + "` (no such command), " +
                       (meant ? "did you mean " + *meant + "?"
                              : std::string{"`rhizome --help` lists what there is"})};
}

Command parse_train(const Arguments& arguments, const Environment& environment,
                    const ReadFile& read_file) {
    Arguments settings = arguments;
    const bool digests = std::erase(settings, std::string{digest_switch}) > 0;
    const TakenFlags flags = take_flags(settings, {"folder", "run", "start", "columns"});
    Command command{.kind = Command::Kind::train};
    command.config = parse_run_config(flags.rest, environment, read_file);
    command.digests = digests;
    for (const Setting& setting : flags.taken) {
        if (setting.key == "folder") {
            command.folder = setting.value;
            continue;
        }
        if (setting.key == "run") {
            command.joins = setting.value;
            continue;
        }
        const bool is_start = setting.key == "start";
        const WholeRange range = is_start ? WholeRange{0, 1'000'000} : WholeRange{0, 10000};
        std::int64_t count = 0;
        if (const auto problem = read_whole(setting.value, range, count)) {
            throw ConfigError{"--" + setting.key + "=" + shown(setting.value) + " (" +
                              problem->reason + "), " + problem->hint};
        }
        auto& target = is_start ? command.start : command.columns;
        target = static_cast<std::int32_t>(count);
    }
    return command;
}

}  // namespace

Command parse_command_line(const Arguments& arguments, const Environment& environment,
                           const ReadFile& read_file) {
    if (arguments.empty()) return {Command::Kind::none};
    const std::string& word = arguments.front();
    const Arguments rest{arguments.begin() + 1, arguments.end()};
    const bool asks_for_help = std::any_of(rest.begin(), rest.end(), is_help);
    if (word == "train") {
        if (asks_for_help) return {Command::Kind::train_help};
        return parse_train(rest, environment, read_file);
    }
    if (word == "run") {
        if (asks_for_help) return {Command::Kind::run_help};
        // Not as an initializer: GCC 12 destroys its members twice if this throws.
        Command command{.kind = Command::Kind::run};
        command.run = parse_run_options(rest, environment, read_file);
        return command;
    }
    if (word == "stop") {
        if (asks_for_help) return {Command::Kind::stop_help};
        Command command{.kind = Command::Kind::stop};
        command.stop = parse_stop_options(rest);
        return command;
    }
    if (word == "generate") {
        if (asks_for_help) return {Command::Kind::generate_help};
        Command command{.kind = Command::Kind::generate};
        command.generate = parse_generate_options(rest);
        return command;
    }
    if (word == "save") {
        if (asks_for_help) return {Command::Kind::save_help};
        Command command{.kind = Command::Kind::save};
        command.save = parse_save_options(rest);
        return command;
    }
    if (word == "profile") {
        if (asks_for_help) return {Command::Kind::profile_help};
        Command command{.kind = Command::Kind::profile};
        command.profile = parse_profile_options(rest, environment, read_file);
        return command;
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
