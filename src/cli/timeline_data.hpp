// A timeline as data: who did what, and when. Its form in files is JSON that trace viewers read
// (Chrome's trace event format; docs/WATCHING.md); one form for one worker and for all of them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cli/run_config.hpp"
#include "engine/recorder.hpp"

namespace rhizome::cli {

/// Something else has a name: a save.
using TimelineWhat = std::variant<engine::TurnKind, schedule::Instruction, engine::Wait,
                                  engine::Transfer, std::string>;

struct TimelineSpan {
    std::int32_t step;  // under way, or the last one
    engine::Interval when;
    TimelineWhat what;
    friend bool operator==(const TimelineSpan&, const TimelineSpan&) = default;
};

/// Spans of one row usually do not overlap; those of sends, receives and others may.
enum class TimelineRow : std::uint8_t { turn, compute, exchange, wait, send, receive, other };
[[nodiscard]] TimelineRow row_of(const TimelineSpan& span);

struct WorkerTimeline {
    WorkerId worker;
    std::vector<TimelineSpan> spans{};
    std::int64_t left_out = 0;  // spans for which there was no room
    friend bool operator==(const WorkerTimeline&, const WorkerTimeline&) = default;
};

struct Timeline {
    StepRange steps{};
    std::vector<WorkerId> members{};  // of the run, ascending
    Nanoseconds origin{};  // of all spans: they are later by their times; since 1970, in UTC
    std::vector<WorkerTimeline> workers{};  // ascending; those whose spans are here
    friend bool operator==(const Timeline&, const Timeline&) = default;
};

/// Of one timeline, all workers together. A span takes about a hundred bytes.
inline constexpr std::int64_t timeline_spans_max = 2'000'000;
/// From its origin to its last end: four months.
inline constexpr Nanoseconds timeline_time_max{std::int64_t{10'000'000} * 1'000'000'000};

/// Piece by piece: it may be long.
void write_json(const Timeline& timeline, const std::function<void(std::string_view)>& write);

struct NoTimeline {
    std::string reason;
};
/// Of what write_json() wrote. Reads whatever there is in it of what belongs to a timeline.
[[nodiscard]] std::variant<Timeline, NoTimeline> parse_timeline(std::string_view text);

enum class [[nodiscard]] Addition : std::uint8_t { done, too_far_apart };
/// Adds the workers of `other` that are not there yet, and moves all to the earlier origin; or
/// changes nothing, if they would then be longer than a timeline may be.
Addition add(Timeline& timeline, Timeline other);

}  // namespace rhizome::cli
