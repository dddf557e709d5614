// Schedules for people: as text that parses back, as a drawing for a terminal, as a picture.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "schedule/dry_run.hpp"
#include "schedule/instruction.hpp"

namespace rhizome::schedule {

/// A schedule as text: the shape, then a line of instructions per worker.
[[nodiscard]] std::string to_text(const Schedule& schedule);

/// The kind of instruction that such a word stands for: F, SA, C.
[[nodiscard]] std::optional<Kind> kind_of(std::string_view word);

/// Throws ConfigError "problem (reason), hint" with the line and word that is wrong. The schedule
/// need not be right, only readable.
[[nodiscard]] Schedule parse_schedule(std::string_view text);

/// A line per worker, a column per unit of time; computation only, as F0 B0 I0 W0 (with the stage
/// in front, 1F0, where a worker has several), ".." for a bubble:
///
///   worker 0 | F0 F1 F2 F3 .. .. B0
///
/// `unit_s` is the length of a column; instructions of several units repeat as "--".
[[nodiscard]] std::string draw(const Schedule& schedule, const DryRun& run, double unit_s);

/// The same as a scalable picture, with transfers as lines and the memory of activations below.
[[nodiscard]] std::string draw_svg(const Schedule& schedule, const DryRun& run);

}  // namespace rhizome::schedule
