#include "cli/timeline.hpp"

#include <algorithm>
#include <set>

#include "cli/values.hpp"

namespace rhizome::cli {
namespace {

using state::FileSystem;

constexpr std::int64_t file_bytes_max = std::int64_t{1} << 28U;  // of one worker

std::string name_of(WorkerId worker) {
    std::string number = std::to_string(worker.value());
    number.insert(0, 5 - std::min<std::size_t>(number.size(), 5), '0');
    return "worker-" + number + ".json";
}

std::string folder_of(const std::string& run) { return run + "/timeline"; }

/// Whole or not there, in place of what is there.
void write_whole(FileSystem& files, const std::string& path, const Timeline& timeline) {
    const std::string aside = path + ".part";
    files.remove_all(aside);
    {
        const auto file = files.create(aside);
        std::int64_t end = 0;
        write_json(timeline, [&](std::string_view text) {
            file->write_at(end, std::as_bytes(std::span{text}));
            end += static_cast<std::int64_t>(text.size());
        });
    }
    files.remove_all(path);
    files.rename(aside, path);
}

std::variant<Timeline, NoTimeline> read(FileSystem& files, const std::string& path) {
    std::string text;
    try {
        const auto file = files.open(path);
        if (file->bytes() > file_bytes_max) return NoTimeline{"is larger than 256 MiB"};
        text.resize(static_cast<std::size_t>(file->bytes()));
        file->read_at(0, std::as_writable_bytes(std::span{text}));
    } catch (const state::FileError& error) {
        return NoTimeline{error.reason()};
    }
    return parse_timeline(text);
}

std::int64_t spans_of(const Timeline& timeline) {
    std::size_t spans = 0;
    for (const WorkerTimeline& worker : timeline.workers) spans += worker.spans.size();
    return static_cast<std::int64_t>(spans);
}

/// The names of all files that could be a worker's.
std::vector<std::string> files_of(FileSystem& files, const std::string& folder) {
    std::vector<std::string> names;
    try {
        if (files.kind_of(folder) != state::EntryKind::folder) return {};
        for (const state::Entry& entry : files.list(folder)) {
            if (entry.name.starts_with("worker-") && entry.name.ends_with(".json")) {
                names.push_back(entry.name);
            }
        }
    } catch (const state::FileError& error) {
        throw ConfigError{shown(error.path()) + " (" + error.reason() +
                          "), name a run's folder that can be read"};
    }
    return names;
}

}  // namespace

Nanoseconds wall_offset(const Clock& clock) {
    // Of several looks at both clocks, that between which the least time went by.
    constexpr int looks = 5;
    Nanoseconds best{0};
    Nanoseconds shortest = Nanoseconds::max();
    for (int look = 0; look < looks; ++look) {
        const Nanoseconds before = clock.now();
        const auto wall = std::chrono::duration_cast<Nanoseconds>(
            std::chrono::system_clock::now().time_since_epoch());
        const Nanoseconds took = clock.now() - before;
        if (took >= shortest) continue;
        shortest = took;
        best = wall - before - took / 2;
    }
    return best;
}

TimelineFile::TimelineFile(std::shared_ptr<FileSystem> files, Config config, const Log& log)
    : files_{std::move(files)}, config_{std::move(config)}, log_{log}, recorded_{config_.worker} {}

void TimelineFile::begin_turn(engine::TurnKind kind, Step step) {
    kind_ = kind;
    if (kind != engine::TurnKind::step) return;
    step_ = step.value();
    if (step_ > config_.steps.last) {
        finish();
    } else if (phase_ == Phase::before && step_ >= config_.steps.first) {
        phase_ = Phase::recording;
    }
}

void TimelineFile::end_turn(engine::Interval when) {
    keep(when, kind_);
    if (kind_ == engine::TurnKind::step && step_ == config_.steps.last) finish();
}

void TimelineFile::instruction(const schedule::Instruction& what, engine::Interval when) {
    keep(when, what);
}
void TimelineFile::wait(const engine::Wait& what, engine::Interval when) { keep(when, what); }
void TimelineFile::transfer(const engine::Transfer& what, engine::Interval when) {
    keep(when, what);
}
void TimelineFile::named(std::string_view name, engine::Interval when) {
    if (phase_ == Phase::recording) keep(when, std::string{name});
}

void TimelineFile::keep(engine::Interval when, TimelineWhat what) {
    if (phase_ != Phase::recording) return;
    if (static_cast<std::int64_t>(recorded_.spans.size()) >= config_.spans_max) {
        ++recorded_.left_out;
        return;
    }
    recorded_.spans.push_back({step_, when, std::move(what)});
}

Timeline TimelineFile::timeline() {
    Nanoseconds first = recorded_.spans.front().when.begin;
    for (const TimelineSpan& span : recorded_.spans) first = std::min(first, span.when.begin);
    for (TimelineSpan& span : recorded_.spans) {
        span.when = {span.when.begin - first, span.when.end - first};
    }
    Timeline timeline{
        .steps = config_.steps, .members = config_.members, .origin = first + config_.wall_offset};
    timeline.workers.push_back(std::move(recorded_));
    return timeline;
}

void TimelineFile::finish() {
    if (phase_ == Phase::done) return;
    phase_ = Phase::done;
    if (recorded_.spans.empty()) return;
    const std::string path = folder_of(config_.folder) + "/" + name_of(config_.worker);
    if (recorded_.left_out > 0) {
        log_.warn("the timeline has no room for " + std::to_string(recorded_.left_out) +
                  " of its spans (more than " + std::to_string(config_.spans_max) +
                  " on a worker), take fewer steps");
    }
    try {
        files_->make_folder(folder_of(config_.folder));
        write_whole(*files_, path, timeline());
    } catch (const state::FileError& error) {
        log_.warn("the timeline could not be written to " + shown(error.path()) + " (" +
                  error.reason() + "): training goes on");
    }
}

Timelines read_timelines(FileSystem& files, const std::string& folder) {
    const std::vector<std::string> names = files_of(files, folder_of(folder));
    if (names.empty()) {
        throw ConfigError{shown(folder) +
                          " (has no timeline), name the folder of a run that had one: "
                          "`rhizome run --timeline FIRST-LAST`"};
    }
    Timelines all;
    for (const std::string& name : names) {
        auto found = read(files, folder_of(folder) + "/" + name);
        const auto leave_out = [&](const std::string& reason) {
            all.left_out.push_back(shown(name) + " (" + reason + ")");
        };
        if (const auto* none = std::get_if<NoTimeline>(&found)) {
            leave_out(none->reason);
            continue;
        }
        auto& timeline = std::get<Timeline>(found);
        if (timeline.workers.size() != 1 || name_of(timeline.workers.front().worker) != name) {
            leave_out("is another worker's");
        } else if (spans_of(all.timeline) + spans_of(timeline) > timeline_spans_max) {
            leave_out("makes more than " + std::to_string(timeline_spans_max) + " spans");
        } else if (add(all.timeline, std::move(timeline)) == Addition::too_far_apart) {
            leave_out("is months away from the others, look at its host's clock");
        }
    }
    if (all.timeline.workers.empty()) {
        throw DataError{shown(folder) + " (its timelines cannot be read: " + all.left_out.front() +
                        "), record them again"};
    }
    const std::set<std::string> known{names.begin(), names.end()};
    for (const WorkerId member : all.timeline.members) {
        const std::string name = name_of(member);
        if (!known.contains(name)) all.left_out.push_back(name + " (is missing)");
    }
    return all;
}

void write_merged(FileSystem& files, const std::string& folder, const Timeline& timeline) {
    write_whole(files, folder + "/timeline.json", timeline);
}

void merge_timelines(FileSystem& files, const std::string& folder, const Log& log) {
    try {
        const Timelines all = read_timelines(files, folder);
        for (const std::string& problem : all.left_out) {
            log.warn("left out of the run's timeline: " + problem);
        }
        write_merged(files, folder, all.timeline);
    } catch (const UserError& error) {
        log.warn(std::string{"the run's timeline could not be made: "} + error.what());
    } catch (const state::FileError& error) {
        log.warn("the run's timeline could not be written to " + shown(error.path()) + " (" +
                 error.reason() + ")");
    }
}

}  // namespace rhizome::cli
