// Saves states while the training goes on. Between two steps every worker copies what it writes
// (Snapshot); the rest happens beside the next steps:
//
//   first member   begin_state          commit_state, prune
//   all            snapshot    write_share
//                  |           |        |               |
//   step border    k           k+1      k+...           there
//
// From one phase to the next all workers go at the same step border, when the votes of that step
// say that nobody has anything under way any more. A save that fails on one worker fails for all,
// is reported there, and leaves older states as they are; the run goes on.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "engine/background.hpp"
#include "engine/snapshot.hpp"
#include "engine/votes.hpp"
#include "engine/worker.hpp"
#include "state/state_folder.hpp"

namespace rhizome::engine {

/// How a save ended.
struct SaveEnd {
    std::int32_t steps;
    std::string path;     // of the state
    std::string problem;  // empty: it is there
    Nanoseconds took;     // from the snapshot on
    std::int64_t bytes;   // of all shares
};

struct SaverConfig {
    std::shared_ptr<state::FileSystem> files;
    std::string folder;  // of states
    state::KeepRule keep{};
    /// What the state after so many steps says about itself. The first member is asked, others not.
    std::function<state::StateFacts(std::int32_t steps)> facts;
    /// Told on the first member always, elsewhere if the problem was there.
    std::function<void(const SaveEnd& end)> on_end = [](const SaveEnd&) {};
    /// Older states could not be removed; told on the first member.
    std::function<void(const std::string& problem)> on_prune_problem = [](const std::string&) {};
};

class Saver {
  public:
    /// All references must outlive it. `saved` is how many steps are in the newest state already.
    Saver(Worker& worker, const LayerTable& table, Background& background, SaverConfig config,
          std::optional<std::int32_t> saved);

    /// Of this worker for the next agreement: all, but vote::idle or vote::well where that is not
    /// so.
    [[nodiscard]] Votes votes();

    enum class Due : std::uint8_t { no, yes };
    enum class Begin : std::uint8_t { now, later };
    /// Between two steps; `all` is what all said in the last one's agreement. Takes a snapshot if a
    /// save is due, or was, and none is under way, and it need not wait.
    [[nodiscard]] CommStatus between_steps(std::int32_t steps, Votes all, Due due,
                                           Begin begin = Begin::now);

    /// Ends what is under way and saves the state after so many steps, unless it is saved. All
    /// workers must call it. Waits as long as the worker's patience for every phase, at most.
    [[nodiscard]] CommStatus finish(std::int32_t steps);

    /// What survivors of a loss tell each other, and all go on with.
    struct Notes {
        std::optional<std::int32_t> saved{};  // the newest state that is known to be there
        bool wanted = false;                  // a save was under way, or due
    };
    [[nodiscard]] Notes notes() const;
    /// The worker has a new assignment, and some who had a share in a save may be gone: what was
    /// under way is given up, and begins anew between two steps.
    void begin_epoch(const Notes& of_all);

    /// Nothing is under way, on any worker.
    [[nodiscard]] bool is_idle() const { return phase_ == Phase::rest; }
    /// The worker has a new assignment in the same epoch, and nothing was under way.
    void take_new_assignment() {
        ENSURE(is_idle());
        snapshot_ = make_snapshot();
    }
    /// The newest state that is there.
    [[nodiscard]] std::optional<std::int32_t> saved_steps() const { return saved_; }

  private:
    enum class Phase : std::uint8_t { rest, beginning, writing, committing, abandoning };

    /// What a piece of work in the background has to say.
    struct Outcome {
        std::string problem;
        std::string prune_problem;
        state::ShareFacts share{};
        std::int64_t bytes = 0;
    };

    [[nodiscard]] bool is_first();
    [[nodiscard]] std::shared_ptr<Snapshot> make_snapshot();
    [[nodiscard]] CommStatus start_save(std::int32_t steps);
    void advance(Votes all);
    void fail();
    void end();
    void start(std::function<void(Outcome&)> work);
    void start_writing();
    void start_commit();

    Worker& worker_;
    state::StoredTable table_;
    Background& background_;
    SaverConfig config_;
    std::shared_ptr<Snapshot> snapshot_;  // shared with what is under way
    std::shared_ptr<Outcome> outcome_ = std::make_shared<Outcome>();
    Phase phase_ = Phase::rest;
    bool wanted_ = false;
    std::int32_t steps_ = 0;  // of the save under way
    Nanoseconds began_{};
    std::optional<std::int32_t> saved_;
};

}  // namespace rhizome::engine
