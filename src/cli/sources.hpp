// The three places where settings are written down, each read into one list: what was set, to what,
// and where. Nothing here knows what a value means; names are checked, values are not.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rhizome::cli {

using Arguments = std::vector<std::string>;
using Environment = std::vector<std::pair<std::string, std::string>>;

struct Setting {
    std::string key;    // model.blocks
    std::string value;  // not empty
    std::string where;  // --model.blocks, RHIZOME_MODEL_BLOCKS, run.conf:3: model.blocks
};

/// The keys that a command takes as flags, and how its help is called.
struct Flags {
    std::vector<std::string> names;
    std::string help;  // rhizome train --help
};

/// Those of `rhizome train`: all keys, and "config".
[[nodiscard]] Flags train_flags();

/// Of `rhizome train`; takes no value.
inline constexpr std::string_view digest_switch = "--digest";

/// Names the launcher of MPI; no key.
inline constexpr std::string_view mpirun_variable = "RHIZOME_MPIRUN";

/// `--key value` and `--key=value`. Names are not guessed from their beginning. This and those
/// below throw ConfigError.
[[nodiscard]] std::vector<Setting> flag_settings(const Arguments& arguments, const Flags& flags);

struct TakenFlags {
    std::vector<Setting> taken;
    Arguments rest;  // --key=value, as train_flags() allows them
};

/// Divides the flags of a command into those of that name and those of `rhizome train`.
[[nodiscard]] TakenFlags take_flags(const Arguments& arguments,
                                    const std::vector<std::string>& names);

/// Variables that begin with RHIZOME_ and are not reserved for scripts.
[[nodiscard]] std::vector<Setting> environment_settings(const Environment& environment);

/// `key = value`, `[section]` headers that are put before the keys that follow, `#` comments.
[[nodiscard]] std::vector<Setting> file_settings(const std::string& path, std::string_view content);

}  // namespace rhizome::cli
