// `rhizome save`: has a run save a state after the step under way, from anywhere that sees its
// folder, and waits for that state.
#pragma once

#include <chrono>
#include <string>

#include "cli/sources.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/log.hpp"

namespace rhizome::cli {

struct SaveOptions {
    std::string folder{};
    Nanoseconds within = std::chrono::minutes{10};
    friend bool operator==(const SaveOptions&, const SaveOptions&) = default;
};

/// `arguments` are those after the command. Throws ConfigError.
[[nodiscard]] SaveOptions parse_save_options(const Arguments& arguments);

/// done: a state is there that was not before. unfinished: none came in time, or the run has ended
/// without one. Throws ConfigError if there is no run, or if it cannot be told.
[[nodiscard]] ExitCode save_command(const SaveOptions& options, const Log& log);

}  // namespace rhizome::cli
