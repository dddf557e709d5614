// What the commands about a run's folder have in common: FOLDER [--within SECONDS] and switches.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "cli/sources.hpp"
#include "core/clock.hpp"

namespace rhizome::cli {

/// How often such a command looks at the folder.
inline constexpr Nanoseconds folder_look = std::chrono::milliseconds{50};

struct FolderOptions {
    std::string folder{};
    std::optional<Nanoseconds> within{};
    std::set<std::string> switches{};  // those given
};

/// `arguments` are those after `rhizome COMMAND`. Throws ConfigError.
[[nodiscard]] FolderOptions parse_folder_options(const std::string& command,
                                                 const Arguments& arguments,
                                                 const std::set<std::string>& switches);

}  // namespace rhizome::cli
