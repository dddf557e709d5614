// `rhizome stop`: ends a run from anywhere that sees its folder. A word there, and force against
// those of its processes on this host that do not heed it in time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "cli/sources.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/log.hpp"

namespace rhizome::cli {

struct StopOptions {
    std::string folder{};
    Nanoseconds within = std::chrono::seconds{60};  // 0: at once
    friend bool operator==(const StopOptions&, const StopOptions&) = default;
};

/// `arguments` are those after the command. Throws ConfigError.
[[nodiscard]] StopOptions parse_stop_options(const Arguments& arguments);

/// done: the run has ended, now or before. unfinished: it left no word of how, or may go on on
/// other hosts. Throws ConfigError if there is no run, or if it cannot be told to end.
[[nodiscard]] ExitCode stop_command(const StopOptions& options, const Log& log);

}  // namespace rhizome::cli
