// From what the user wrote to one RunConfig. Wins over what stands before it: defaults < file <
// environment < flags. Everything unknown, doubled, empty or contradictory is an error that names
// its place; nothing is ignored and nothing is guessed.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "cli/run_config.hpp"
#include "cli/sources.hpp"

namespace rhizome::cli {

/// Content of a configuration file; throws ConfigError.
using ReadFile = std::function<std::string(const std::string& path)>;

/// Pure but for `read_file`, which is called once if --config is given. `arguments` are those after
/// the command. Throws ConfigError.
[[nodiscard]] RunConfig parse_run_config(const Arguments& arguments, const Environment& environment,
                                         const ReadFile& read_file);

/// Where each key that was given stands; of several places the one that won.
using Places = std::map<std::string, std::string, std::less<>>;

/// Settings that all others win over, and how to call them in messages.
struct WeakestText {
    std::string where{};
    std::string text{};
};

struct GivenConfig {
    RunConfig config;  // keys may say something against each other
    Places places;
};

/// As parse_run_config, but nothing has to be given and conflicts are left to refuse_conflicts.
[[nodiscard]] GivenConfig parse_given_config(const WeakestText& weakest, const Arguments& arguments,
                                             const Environment& environment,
                                             const ReadFile& read_file);

/// Throws ConfigError that names the places of the keys.
void refuse_conflicts(const RunConfig& config, const Places& places);

/// The keys that decided the weights of a state, as it has them, as lines of `key = value`: each of
/// them (but for the name of a size, which is none), and no other. Layout keys keep their defaults.
/// `where` names the text in messages. Throws ConfigError.
[[nodiscard]] RunConfig parse_mathematics(const std::string& where, std::string_view text);

/// The real thing. A configuration file is a page of text: more than a megabyte is refused.
[[nodiscard]] std::string read_config_file(const std::string& path);

}  // namespace rhizome::cli
