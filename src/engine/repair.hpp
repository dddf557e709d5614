// Goes on after a loss, on all who live: ends the epoch, opens the next one with those who are
// left, asks everybody what it has, decides (recover room), moves what has to move, and gives the
// worker its new assignment.
//
//   abandon -> open_epoch -> reports -> decide -> moves -> agreement -> new assignment
//      ^                                                        |
//      '---------------- whatever goes wrong in between --------'
//
// Until the agreement at the end everybody keeps what it had, so a loss in the middle of a repair
// is one loss more and nothing else; after it all have the new assignment. One attempt fails for
// all or for nobody.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/worker.hpp"
#include "recover/decide.hpp"

namespace rhizome::engine {

/// What was done about a loss, on one survivor; or about a shape that an earlier one has left.
struct RepairRecord {
    Epoch epoch{0};                // that was opened, or is
    std::vector<WorkerId> lost{};  // since the epoch before; none between steps
    CommStatus noticed{};          // how this worker did
    recover::Rung rung = recover::Rung::replan;
    std::string reason{};
    std::int32_t steps = 0;  // the run goes on after so many
    std::int32_t lanes_kept = 0;
    std::int32_t attempts = 0;
    std::int64_t bytes_moved = 0;  // between all workers
    Nanoseconds began{};           // when this worker noticed
    Nanoseconds opened{};          // the rest: of the last attempt
    Nanoseconds decided{};
    Nanoseconds ended{};
    // --- what has to be done again ---
    /// That had gone into what broke off, on this worker; of a step that keeps lanes the share of
    /// the others, which is an estimate.
    Nanoseconds again{};
    std::int32_t steps_again = 0;  // committed ones, after a return to an older state

    /// No loss was noticed: the shape was changed because that pays.
    [[nodiscard]] bool between_steps() const { return noticed == CommStatus::ok; }
};

struct RepairConfig {
    recover::Facts facts;
    schedule::Costs costs;  // that order what no dependency orders
    Recompute recompute = Recompute::none;
    std::int32_t evaluation_microbatches = 0;
    Nanoseconds at_most{};  // from the loss to the end of its repair
    /// Asked after an epoch was opened: whether this worker may go on in it.
    std::function<bool(const world::World& world)> is_allowed = [](const world::World&) {
        return true;
    };
    /// Loads the newest whole state, or the initial one. Called on all who live, in a new
    /// assignment, when a chunk has no owner left.
    std::function<CommStatus(Worker& worker)> load = [](Worker& worker) {
        worker.initialize();
        return CommStatus::ok;
    };
};

struct RepairEnd {
    CommStatus status;  // ok: the worker goes on. Otherwise, after a repair, it can only leave
    RepairRecord record;
    std::vector<recover::Report> reports;  // of all who go on
};

/// Between two steps, after a repair that has left workers or lanes ill shared: a new shape for the
/// `steps` to come, if that pays. All members call it; `record.attempts` is 0 if it does not. On a
/// status that is not ok the worker has the state that it had, and needs a repair.
[[nodiscard]] RepairEnd replan(Worker& worker, const RepairConfig& config, std::int32_t steps);

/// After a status that was not ok. `notes` are told to all, as many on every worker.
[[nodiscard]] RepairEnd repair(Worker& worker, const RepairConfig& config, CommStatus noticed,
                               const std::vector<std::int32_t>& notes);

}  // namespace rhizome::engine
