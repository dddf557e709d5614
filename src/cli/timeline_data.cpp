#include "cli/timeline_data.hpp"

#include <algorithm>
#include <set>

namespace rhizome::cli {
namespace {

struct RowOf {
    TimelineRow operator()(engine::TurnKind /*kind*/) const { return TimelineRow::turn; }
    TimelineRow operator()(const schedule::Instruction& what) const {
        const bool computes =
            schedule::is_compute(what.kind) || what.kind == schedule::Kind::update;
        return computes ? TimelineRow::compute : TimelineRow::exchange;
    }
    TimelineRow operator()(const engine::Wait& /*what*/) const { return TimelineRow::wait; }
    TimelineRow operator()(const engine::Transfer& what) const {
        return what.direction == engine::Direction::send ? TimelineRow::send : TimelineRow::receive;
    }
    TimelineRow operator()(const std::string& /*name*/) const { return TimelineRow::other; }
};

void move(Timeline& timeline, Nanoseconds to) {
    const Nanoseconds later = timeline.origin - to;
    for (WorkerTimeline& worker : timeline.workers) {
        for (TimelineSpan& span : worker.spans) {
            span.when = {span.when.begin + later, span.when.end + later};
        }
    }
    timeline.origin = to;
}

Nanoseconds end_of(const Timeline& timeline) {
    Nanoseconds end{0};
    for (const WorkerTimeline& worker : timeline.workers) {
        for (const TimelineSpan& span : worker.spans) end = std::max(end, span.when.end);
    }
    return timeline.origin + end;
}

}  // namespace

TimelineRow row_of(const TimelineSpan& span) { return std::visit(RowOf{}, span.what); }

Addition add(Timeline& timeline, Timeline other) {
    if (timeline.workers.empty()) {
        timeline = std::move(other);
        return Addition::done;
    }
    const Nanoseconds origin = std::min(timeline.origin, other.origin);
    if (std::max(end_of(timeline), end_of(other)) - origin > timeline_time_max) {
        return Addition::too_far_apart;
    }
    move(timeline, origin);
    move(other, origin);
    std::set<WorkerId> members{timeline.members.begin(), timeline.members.end()};
    members.insert(other.members.begin(), other.members.end());
    timeline.members.assign(members.begin(), members.end());
    timeline.steps = {std::min(timeline.steps.first, other.steps.first),
                      std::max(timeline.steps.last, other.steps.last)};
    std::set<WorkerId> here;
    for (const WorkerTimeline& worker : timeline.workers) here.insert(worker.worker);
    for (WorkerTimeline& worker : other.workers) {
        if (here.insert(worker.worker).second) timeline.workers.push_back(std::move(worker));
    }
    std::sort(timeline.workers.begin(), timeline.workers.end(),
              [](const auto& one, const auto& two) { return one.worker < two.worker; });
    return Addition::done;
}

}  // namespace rhizome::cli
