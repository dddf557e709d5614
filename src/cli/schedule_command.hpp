// `rhizome-plan schedule`: makes or reads a schedule, checks it, times it, shows it.
#pragma once

#include <string>

#include "cli/schedule_options.hpp"

namespace rhizome::cli {

/// What is to be printed. Writes the picture if one is asked for, aside and then in one move.
/// Throws ConfigError, also for a schedule with a fault.
[[nodiscard]] std::string schedule_command(const ScheduleOptions& options);

}  // namespace rhizome::cli
