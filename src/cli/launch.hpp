// Starts the processes of a run and stays with them until it has ended. What holds: one Ctrl-C ends
// a run in order, a second one at once; SIGUSR1 has a state saved; the exit code is the run's own;
// nothing is left on this host.
//
// mpirun cannot be asked for any of this. A signal would make it end the ranks in the middle of a
// step, its exit code says nothing after a loss, and ranks outlive it. So it gets a session of its
// own, where no terminal reaches it, and the run's folder has the last word. Ranks whose mpirun is
// gone go on, and are waited for all the same.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/sources.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "world/run_folder.hpp"

namespace rhizome::cli {

struct LaunchPlan {
    std::vector<std::string> command;  // mpirun and all its words
    Environment environment;           // of mpirun
    Nanoseconds grace;                 // from the run's end to the end of its processes
};

/// What lasts from one launch of a run to the next: signals are held back and orphans taken in. One
/// in a process, of one thread, that ends soon after.
class Launches {
  public:
    explicit Launches(const Log& log);
    ~Launches();
    Launches(const Launches&) = delete;
    Launches& operator=(const Launches&) = delete;

    /// Returns the code of the run's marker; ExitCode::unfinished if there never was one. Throws
    /// ConfigError if mpirun cannot be started.
    [[nodiscard]] ExitCode launch(const LaunchPlan& plan, const world::RunFolder& folder);

    /// Somebody has asked for the run's end: by a signal, until now.
    [[nodiscard]] bool end_asked();

  private:
    struct Lasting;
    std::unique_ptr<Lasting> lasting_;
};

}  // namespace rhizome::cli
