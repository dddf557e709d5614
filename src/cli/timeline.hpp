// What this worker does in some steps of a run, as FOLDER/timeline/worker-00003.json, and the
// timelines of all workers in one, FOLDER/timeline.json, both for trace viewers (docs/WATCHING.md).
//
// Trouble with files is a warning: training matters more than a picture of it.
#pragma once

#include <memory>
#include <string>

#include "cli/timeline_data.hpp"
#include "core/log.hpp"
#include "state/file_system.hpp"

namespace rhizome::cli {

/// What must be added to a clock's time for the time since 1970, in UTC, on this host.
[[nodiscard]] Nanoseconds wall_offset(const Clock& clock);

/// Records from the first of the steps to the last, and what happens in between: evaluations,
/// saves. Outside of them it costs a call per span. Bounded in memory: spans that are too many are
/// counted, and said.
class TimelineFile final : public engine::Recorder {
  public:
    struct Config {
        std::string folder;  // of the run
        StepRange steps;
        WorkerId worker;
        std::vector<WorkerId> members{};
        Nanoseconds wall_offset;
        std::int64_t spans_max = 100'000;
    };
    /// `log` must outlive it.
    TimelineFile(std::shared_ptr<state::FileSystem> files, Config config, const Log& log);

    /// Writes what there is, unless it has been written: when the last of the steps is done, it is.
    void finish();

    void begin_turn(engine::TurnKind kind, Step step) override;
    void end_turn(engine::Interval when) override;
    void instruction(const schedule::Instruction& what, engine::Interval when) override;
    void wait(const engine::Wait& what, engine::Interval when) override;
    void transfer(const engine::Transfer& what, engine::Interval when) override;
    void named(std::string_view name, engine::Interval when) override;

  private:
    void keep(engine::Interval when, TimelineWhat what);
    [[nodiscard]] Timeline timeline();

    std::shared_ptr<state::FileSystem> files_;
    Config config_;
    const Log& log_;
    enum class Phase : std::uint8_t { before, recording, done } phase_ = Phase::before;
    engine::TurnKind kind_ = engine::TurnKind::step;
    std::int32_t step_ = 0;
    WorkerTimeline recorded_;  // on the worker's clock
};

/// The timelines of a run's workers, and why some of them are not in it.
struct Timelines {
    Timeline timeline;
    std::vector<std::string> left_out;  // worker-00003.json (reason)
};

/// Throws ConfigError if the folder has no timeline, DataError if none can be read.
[[nodiscard]] Timelines read_timelines(state::FileSystem& files, const std::string& folder);

/// Writes FOLDER/timeline.json, in place of one that is there. Throws FileError.
void write_merged(state::FileSystem& files, const std::string& folder, const Timeline& timeline);

/// For the end of a run, by one worker when all have ended theirs: both of the above. Trouble, and
/// what was left out, is a warning.
void merge_timelines(state::FileSystem& files, const std::string& folder, const Log& log);

}  // namespace rhizome::cli
