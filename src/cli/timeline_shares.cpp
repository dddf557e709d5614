#include "cli/timeline_shares.hpp"

#include <algorithm>
#include <map>

#include "cli/times.hpp"
#include "core/text.hpp"
#include "schedule/svg.hpp"

namespace rhizome::cli {
namespace {

using schedule::Kind;

TimeUse use_of(Kind kind) {
    switch (kind) {
        case Kind::forward:
            return TimeUse::forward;
        case Kind::recompute:
            return TimeUse::recompute;
        case Kind::backward:
        case Kind::backward_input:
            return TimeUse::backward;
        case Kind::backward_weight:
            return TimeUse::weight;
        case Kind::update:
            return TimeUse::update;
        default:
            return TimeUse::exchange;
    }
}

/// The spans of a worker, by what they are.
struct Sorted {
    explicit Sorted(const WorkerTimeline& timeline) {
        for (const TimelineSpan& span : timeline.spans) {
            if (const auto* turn = std::get_if<engine::TurnKind>(&span.what)) {
                if (*turn == engine::TurnKind::step) steps.push_back(span.when);
            } else if (const auto* what = std::get_if<schedule::Instruction>(&span.what)) {
                uses[static_cast<std::size_t>(use_of(what->kind))].push_back(span.when);
            } else if (const auto* wait = std::get_if<engine::Wait>(&span.what)) {
                uses[static_cast<std::size_t>(TimeUse::wait)].push_back(span.when);
                waits[{wait->what, wait->peer}].push_back(span.when);
            }
        }
    }

    Times steps;
    std::array<Times, time_uses> uses;
    std::map<std::pair<engine::Awaited, std::optional<WorkerId>>, Times> waits;
};

WorkerShares shares_of(const WorkerTimeline& timeline) {
    Sorted sorted{timeline};
    WorkerShares shares{.worker = timeline.worker,
                        .steps = static_cast<std::int64_t>(sorted.steps.size())};
    Times left = united(std::move(sorted.steps));  // of the steps, what has no use yet
    shares.time = sum(left);
    const auto take = [&](TimeUse use) {
        const auto place = static_cast<std::size_t>(use);
        const Times times = united(std::move(sorted.uses[place]));
        shares.used[place] = sum(common(left, times));
        left = without(left, times);
    };
    for (const TimeUse use : {TimeUse::forward, TimeUse::recompute, TimeUse::backward,
                              TimeUse::weight, TimeUse::update}) {
        take(use);
    }
    for (auto& [what, times] : sorted.waits) {
        const Nanoseconds time = sum(common(left, united(std::move(times))));
        if (time <= shares.longest_time) continue;
        shares.longest = engine::Wait{what.first, what.second};
        shares.longest_time = time;
    }
    take(TimeUse::wait);
    take(TimeUse::exchange);
    shares.used[static_cast<std::size_t>(TimeUse::other)] = sum(left);
    shares.computes = shares[TimeUse::forward] + shares[TimeUse::backward] > Nanoseconds{0};
    return shares;
}

double ratio(Nanoseconds part, Nanoseconds whole) {
    return whole.count() > 0
               ? static_cast<double>(part.count()) / static_cast<double>(whole.count())
               : 0.0;
}

double seconds_of(Nanoseconds time) { return std::chrono::duration<double>(time).count(); }

std::string name_of(const engine::Wait& wait) {
    if (wait.peer) return "worker " + std::to_string(wait.peer->value());
    if (wait.what == engine::Awaited::device) return "its device";
    return "its sends";
}

/// Of all that compute, weighed by their time.
WorkerShares total_of(const std::vector<WorkerShares>& shares) {
    WorkerShares total{.worker = WorkerId{0}};
    for (const WorkerShares& each : shares) {
        if (!each.computes) continue;
        total.computes = true;
        total.time += each.time;
        for (std::size_t use = 0; use < time_uses; ++use) total.used[use] += each.used[use];
    }
    return total;
}

}  // namespace

double WorkerShares::bubble_share() const {
    const WorkerShares& self = *this;
    return 1 - ratio(self[TimeUse::forward] + self[TimeUse::recompute] + self[TimeUse::backward] +
                         self[TimeUse::weight],
                     time);
}

std::vector<WorkerShares> shares_of(const Timeline& timeline) {
    std::vector<WorkerShares> shares;
    for (const WorkerTimeline& worker : timeline.workers) shares.push_back(shares_of(worker));
    return shares;
}

std::string table_of(const std::vector<WorkerShares>& shares) {
    constexpr std::array<std::string_view, time_uses> names{
        "forward", "recompute", "backward", "weight", "update", "exchange", "waits", "other"};
    std::array<bool, time_uses> shown{};
    for (const WorkerShares& each : shares) {
        for (std::size_t use = 0; use < time_uses; ++use) {
            shown[use] = shown[use] || each.used[use] > Nanoseconds{0};
        }
    }
    std::string text = padded("worker", 8) + right_aligned("seconds", 10);
    for (std::size_t use = 0; use < time_uses; ++use) {
        if (shown[use]) text += right_aligned(std::string{names[use]}, 11);
    }
    text += right_aligned("bubble", 10) + "  waits most for\n";
    const auto row = [&](const std::string& name, const WorkerShares& each) {
        const auto percent = [](double share) { return to_fixed(100 * share, 1) + " %"; };
        text += padded(name, 8) + right_aligned(to_fixed(seconds_of(each.time), 3), 10);
        for (std::size_t use = 0; use < time_uses; ++use) {
            if (shown[use]) text += right_aligned(percent(ratio(each.used[use], each.time)), 11);
        }
        text += right_aligned(each.computes ? percent(each.bubble_share()) : "-", 10);
        if (each.longest) {
            const double seconds = seconds_of(each.longest_time);
            text += "  " + name_of(*each.longest) + " (" +
                    schedule::to_text(seconds, schedule::unit_for(seconds)) + ")";
        }
        text += "\n";
    };
    for (const WorkerShares& each : shares) row(std::to_string(each.worker.value()), each);
    const WorkerShares total = total_of(shares);
    if (shares.size() > 1 && total.computes) row("all", total);
    return text;
}

}  // namespace rhizome::cli
