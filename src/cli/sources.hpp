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

/// `--key value` and `--key=value`; the key may also be "config". Names are not guessed from their
/// beginning. All three throw ConfigError.
[[nodiscard]] std::vector<Setting> flag_settings(const Arguments& arguments);

/// Variables that begin with RHIZOME_ and are not reserved for scripts.
[[nodiscard]] std::vector<Setting> environment_settings(const Environment& environment);

/// `key = value`, `[section]` headers that are put before the keys that follow, `#` comments.
[[nodiscard]] std::vector<Setting> file_settings(const std::string& path, std::string_view content);

}  // namespace rhizome::cli
