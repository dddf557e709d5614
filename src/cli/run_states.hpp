// The states of one run: what it says of itself in them, which one it goes on from, and the words
// for people about both.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/run_config.hpp"
#include "core/log.hpp"
#include "engine/saver.hpp"
#include "engine/worker.hpp"
#include "state/state_folder.hpp"

namespace rhizome::cli {

/// What decides whether a state belongs to a run, and what is only told.
struct RunIdentity {
    std::string mathematics;  // keys as lines of `key = value`
    std::string layout;
    std::string mathematics_digest;
    std::string data_digest;
    std::string fingerprint;
    std::int64_t samples_per_step;
    std::int64_t samples_per_pass;
};

[[nodiscard]] RunIdentity identity_of(const RunConfig& config, const data::Datasets& datasets,
                                      const std::string& fingerprint);

/// What in a state's mathematics is not this run's: "model.blocks = 4, here 6", by key; nothing if
/// all is equal.
[[nodiscard]] std::vector<std::string> differences(const state::StateFacts& facts,
                                                   const RunIdentity& identity);

/// RUN/states
[[nodiscard]] std::string states_folder(const std::string& run_folder);

class RunStates {
  public:
    RunStates(std::shared_ptr<state::FileSystem> files, RunIdentity identity,
              const LayerTable& table, const Log& log);

    struct Found {
        std::string path;
        std::int32_t steps;
    };
    /// Loads the newest whole state of a folder into the worker; damaged ones are named and passed
    /// over. Nothing if there is none. All workers must call it. Throws UserError on all of them:
    /// the mathematics differ, all states are damaged, a worker was lost.
    [[nodiscard]] std::optional<Found> load_newest(engine::Worker& worker,
                                                   const std::string& folder);
    /// Likewise, in the middle of a run, where others may be writing a state: nothing is removed.
    [[nodiscard]] std::optional<Found> load_newest_again(engine::Worker& worker,
                                                         const std::string& folder);
    /// Loads this one, or the newest whole one of another run, which is left as it is. Likewise.
    [[nodiscard]] Found load_from(engine::Worker& worker, const std::string& path);

    /// Adds to the history that is stored with the next state.
    void note(std::int32_t steps, const std::string& kind, const std::string& text);

    [[nodiscard]] state::StateFacts facts(std::int32_t steps) const;

  private:
    enum class CleanUp : std::uint8_t { yes, no };
    [[nodiscard]] std::optional<Found> load_newest_of(engine::Worker& worker,
                                                      const std::string& folder, CleanUp clean_up);
    struct Attempt {
        std::optional<UserError> mistake;  // no other state would do
        std::string damage;
        bool is_known_to_all = false;  // every worker meets it
        std::int32_t steps = 0;
    };
    [[nodiscard]] Attempt load(engine::Worker& worker, const std::string& path);

    std::shared_ptr<state::FileSystem> files_;
    RunIdentity identity_;
    const LayerTable& table_;
    const Log& log_;
    std::vector<state::Event> history_;
    std::vector<state::Event> noted_;  // by this process
};

}  // namespace rhizome::cli
