// `rhizome profile`: measures what the layers of a network cost on this host, for the cut of a
// run's layers (the key `costs`) and for `rhizome-plan schedule --costs`.
#pragma once

#include <string>

#include "cli/options.hpp"
#include "core/error.hpp"

namespace rhizome::cli {

struct ProfileOptions {
    RunConfig config{};
    std::string output{};  // file to write; empty: the table is the answer
};

/// `arguments` are those after the command. Throws ConfigError.
[[nodiscard]] ProfileOptions parse_profile_options(const Arguments& arguments,
                                                   const Environment& environment,
                                                   const ReadFile& read_file);

/// Its answer goes to the descriptor. Throws ConfigError.
[[nodiscard]] ExitCode profile_command(const ProfileOptions& options, int output);

[[nodiscard]] std::string profile_help_text();

}  // namespace rhizome::cli
