// `rhizome train`: what one worker of a run does from its configuration to its exit code. Alone it
// is the whole run; otherwise every rank calls this with its own world. The first member speaks for
// all.
#pragma once

#include <functional>
#include <optional>

#include "cli/progress.hpp"
#include "cli/run_config.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "world/run_folder.hpp"
#include "world/world.hpp"

namespace rhizome::cli {

struct TrainSettings {
    RunConfig config;
    std::optional<world::RunFolder> folder{};  // of the run, if it has one
    std::int32_t start = 0;                    // how often the run was started before
    bool print_digests = false;                // a digest of every chunk at the end
    Screen screen{};                           // that `output` leads to
    std::int32_t ranks_on_host = 1;            // share its memory
    std::function<void()> pulse = [] {};       // shows that the worker is alive
    /// Whether the run is to end, or to save a state, after the step under way: asked between any
    /// two, of the first member alone, which thereby has heard it. Empty: the folder's words.
    std::function<bool()> stop_asked{};
    std::function<bool()> save_asked{};

    [[nodiscard]] bool hears_stop() const;
    [[nodiscard]] bool hears_save() const;
};

/// Text for people goes to the descriptor `output`. Throws UserError; an error that every worker
/// meets, or that another one has said, has no text.
[[nodiscard]] ExitCode train_command(const TrainSettings& settings, world::World& world,
                                     const Log& log, int output);

}  // namespace rhizome::cli
