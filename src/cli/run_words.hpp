// Words of a run that has no launcher: one process alone, or ranks of somebody else's mpirun. What
// `rhizome run` does for others, such a run does for itself.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "core/error.hpp"
#include "core/log.hpp"
#include "world/run_folder.hpp"

namespace rhizome::cli {

/// Once for a run, by whoever made its folder.
void warn_without_lock(const world::RunFolder& folder, const Log& log);

/// Puts a process on record, so that `rhizome stop` can end it by force, or warns.
void record(const world::RunFolder& folder, const std::string& name, pid_t pid, const Log& log);

/// Runs `train`, leaves the word of how it ended if it has not, and says it. Rethrows.
[[nodiscard]] ExitCode with_last_word(const world::RunFolder& folder, const Log& log,
                                      const std::function<ExitCode()>& train);

/// Signals become words, for a run of one process: SIGINT, SIGTERM and SIGHUP the end word, SIGUSR1
/// the save word. A handler sets a flag, and no more; the flags are read between steps. The second
/// SIGINT finds no handler and kills. Signals that were ignored at the program's start still are.
/// One at a time; at its end all is as it was before.
class SignalWords {
  public:
    SignalWords(const world::RunFolder& folder, const Log& log);
    ~SignalWords();
    SignalWords(const SignalWords&) = delete;
    SignalWords& operator=(const SignalWords&) = delete;

    /// By signal or in the folder.
    [[nodiscard]] bool stop_asked();
    /// Likewise; true once for each time that it was asked for.
    [[nodiscard]] bool save_asked();

  private:
    const world::RunFolder& folder_;
    const Log& log_;
    bool stop_heard_ = false;
};

}  // namespace rhizome::cli
