// Where the time of a timeline's steps went, worker by worker. What was not recorded, such as the
// time between two steps, is not in it.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "cli/timeline_data.hpp"

namespace rhizome::cli {

/// Each moment of a step belongs to one: to a computation if there is one, else to a wait, else to
/// an instruction that exchanges something, else to nothing.
enum class TimeUse : std::uint8_t {
    forward,
    recompute,
    backward,  // whole, or its input part
    weight,    // part of backward
    update,
    exchange,
    wait,
    other,
};
inline constexpr std::size_t time_uses = 8;

struct WorkerShares {
    WorkerId worker;
    std::int64_t steps = 0;
    Nanoseconds time{0};                        // of its steps
    std::array<Nanoseconds, time_uses> used{};  // by TimeUse; the sum is `time`
    bool computes = false;                      // else it is a spare, and has no bubbles
    std::optional<engine::Wait> longest{};      // what it waited for most
    Nanoseconds longest_time{0};

    [[nodiscard]] Nanoseconds operator[](TimeUse use) const {
        return used[static_cast<std::size_t>(use)];
    }
    /// The share in which no microbatch is computed, as in the dry run of a schedule.
    [[nodiscard]] double bubble_share() const;
};

[[nodiscard]] std::vector<WorkerShares> shares_of(const Timeline& timeline);

/// A line per worker and one for all, in per cent.
[[nodiscard]] std::string table_of(const std::vector<WorkerShares>& shares);

}  // namespace rhizome::cli
