// `rhizome run`: `rhizome train` on many ranks, from one word on a login node.
#pragma once

#include <cstdint>
#include <string>

#include "cli/options.hpp"
#include "cli/sources.hpp"
#include "core/error.hpp"
#include "core/log.hpp"

namespace rhizome::cli {

struct RunOptions {
    std::int32_t ranks = 0;
    std::string folder{};       // empty: a new one below runs/
    std::string mpirun{};       // empty: the one that this program was built with
    std::int32_t restarts = 3;  // in a row without a newer state, at most
    Arguments train{};          // of `rhizome train`, known to be right
    friend bool operator==(const RunOptions&, const RunOptions&) = default;
};

/// The Open MPI that this program was built with; all empty if there was none.
struct BuiltInMpi {
    std::string mpirun;
    std::string options;  // of every launch, with blanks between
};

/// `arguments` are those after the command. Throws ConfigError, also for what `rhizome train` would
/// not take, so that a mistake is said once and not by every rank.
[[nodiscard]] RunOptions parse_run_options(const Arguments& arguments,
                                           const Environment& environment,
                                           const ReadFile& read_file);

/// Where a run is, and which one: what its ranks have to know to join it.
struct RunPlace {
    std::string folder;
    std::string run;
    std::int32_t start = 0;  // how often it was started before
};

/// mpirun and all its words. `program` is this one. Throws ConfigError if there is no MPI to start
/// it with.
[[nodiscard]] std::vector<std::string> mpirun_command(const RunOptions& options,
                                                      const BuiltInMpi& built_in,
                                                      const Environment& environment,
                                                      const std::string& program,
                                                      const RunPlace& place);

/// Makes the folder, starts the run, stays with it to its end and returns its exit code. A run that
/// was lost, with whatever could have gone on, is started again from its newest whole state.
[[nodiscard]] ExitCode run_command(const RunOptions& options, const Environment& environment,
                                   const Log& log);

}  // namespace rhizome::cli
