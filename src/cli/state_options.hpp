// The command line of `rhizome-state`: a verb, words, flags. Flags may stand anywhere behind the
// verb; those that take a value are --name VALUE or --name=VALUE.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/sources.hpp"

namespace rhizome::cli {

enum class StateVerb : std::uint8_t {
    list,
    show,
    verify,
    diff,
    history,
    merge,
    prune,
    export_file,
    import_file,
};

struct StateOptions {
    StateVerb verb;
    bool help = false;  // nothing else is set then
    bool json = false;
    std::vector<std::string> words{};            // as many as the verb takes
    std::map<std::string, std::string> flags{};  // "--keep"; switches with an empty value
    Arguments keys{};                            // of import: --KEY=VALUE, --config=FILE

    [[nodiscard]] bool has(const std::string& flag) const { return flags.contains(flag); }
    /// Null if it was not given.
    [[nodiscard]] const std::string* value_of(const std::string& flag) const;
};

/// `arguments` are those after the program's name, at least one. Throws ConfigError.
[[nodiscard]] StateOptions parse_state_options(const Arguments& arguments);

/// Of the program, and of a verb. Each ends with a line break and has at most 100 columns.
[[nodiscard]] std::string state_help_text();
[[nodiscard]] std::string state_help_text(StateVerb verb);

}  // namespace rhizome::cli
