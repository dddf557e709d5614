// `rhizome-plan timeline`: what a run's timeline shows, as a table and as a picture.
#pragma once

#include <string>

#include "cli/sources.hpp"
#include "core/log.hpp"

namespace rhizome::cli {

struct TimelineOptions {
    std::string folder;  // of the run
    std::string svg{};   // file to write; empty: none
    std::int32_t width = 1200;
};

/// Throws ConfigError.
[[nodiscard]] TimelineOptions parse_timeline_options(const Arguments& arguments);
[[nodiscard]] std::string timeline_help_text();

/// Puts the timelines of the workers together, in the run's folder too if it can be written, and
/// gives the text for standard output. Throws UserError.
[[nodiscard]] std::string timeline_command(const TimelineOptions& options, const Log& log);

}  // namespace rhizome::cli
