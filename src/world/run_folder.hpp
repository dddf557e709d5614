// What the processes of a run, and those who watch it, tell each other by way of the file system.
// It holds when the launcher is killed, when MPI is gone, and from host to host:
//
//   FOLDER/lock              held while the run lives (run_lock.hpp); names it
//   FOLDER/stop              the end word: whoever writes it wants the run to end after this step
//   FOLDER/save              the save word: a state after this step, please; removed when heard
//   FOLDER/finished          how it ended: "code 0", "reason ..."; without it, it has not ended
//   FOLDER/processes/NAME    "host H", "pid P", "started T", for whoever must end it by force
//   FOLDER/epochs/N          "members 0 2 3": who goes on after the n-th loss; nobody else does
//   FOLDER/epochs/left.N.M   why member M has left after epoch N, though others may go on
//   FOLDER/former/TIME-N/    `finished` of runs that were here before
//
// One run at a time has a folder. When it is dead the next one may take the folder over: words of
// the former run go, what it has made (states) stays.
//
// Invariant: a file under its final name is whole, and `finished` never changes. It is written
// aside and linked, so of several who write it one is the first, and for all of them that one's
// word holds.
//
// A folder that cannot be used at the start of a run is a ConfigError. Later it may vanish, fill up
// or become read-only at any time, and training goes on: trouble is a value then.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/error.hpp"
#include "core/ids.hpp"
#include "world/run_lock.hpp"
#include "world/run_records.hpp"

namespace rhizome::world {

/// Whether this call ended the run. Neither mine nor a problem: somebody else was faster.
struct [[nodiscard]] Marked {
    bool mine = false;
    std::error_code problem{};
};

class RunFolder {
  public:
    /// A new run, whose lock the result holds. `path` is not there yet, or empty, or has a dead
    /// run in it, which is taken over. Throws ConfigError, also if a run is going on there.
    [[nodiscard]] static RunFolder make(const std::string& path,
                                        const std::string& run = new_run_name());
    /// A new run in a new folder below `parent`, named by that time in UTC. Throws ConfigError.
    [[nodiscard]] static RunFolder make_below(const std::string& parent,
                                              std::chrono::system_clock::time_point now);
    /// For a process of that run, which somebody else made; the result holds its lock as well.
    /// Throws ConfigError, also if another run has the folder by now.
    [[nodiscard]] static RunFolder join(const std::string& path, const std::string& run);
    /// To look at a run and to write words for it, without belonging to it. Throws ConfigError.
    [[nodiscard]] static RunFolder open(const std::string& path);

    /// Unlike any other: "HOST.PID.NANOSECONDS".
    [[nodiscard]] static std::string new_run_name();

    [[nodiscard]] const std::string& path() const { return path_; }  // absolute
    /// The run's name, for those who join it; empty after open().
    [[nodiscard]] const std::string& run() const { return run_; }
    /// Whether make() found a former run in it, and perhaps its states.
    [[nodiscard]] bool taken_over() const { return taken_over_; }
    /// Why the folder could not be locked, if its file system has no locks: then nobody can tell
    /// whether another run uses it.
    [[nodiscard]] const std::error_code& lock_problem() const { return lock_problem_; }

    /// Writes the end word, if it is not there yet.
    [[nodiscard]] std::error_code ask_to_stop() const;
    /// One system call. A folder out of reach asks for nothing.
    [[nodiscard]] bool stop_asked() const;

    /// Writes the save word, if it is not there yet.
    [[nodiscard]] std::error_code ask_to_save() const;
    /// One system call each. For the one member of the run that hears the word: whether it was
    /// there and is removed now. For whoever waits until then: whether it is there.
    [[nodiscard]] bool take_save_word() const;
    [[nodiscard]] bool save_asked() const;

    /// Says how the run ended, unless somebody has. `reason` becomes one line.
    Marked finish(ExitCode code, std::string_view reason) const;
    /// A marker that is damaged says that it is, with ExitCode::unfinished.
    [[nodiscard]] std::optional<Ending> finished() const;

    /// Opens an epoch of the run for its members: publishes its record, unless one of them has. Why
    /// this process must not go on in it, if so: others have opened it without these members (after
    /// a cut link two groups may each think the other one dead), or the folder is out of reach.
    [[nodiscard]] std::optional<std::string> open_epoch(Epoch epoch,
                                                        const std::vector<WorkerId>& members) const;

    /// A member leaves, for it could not get into any epoch after this one; others may.
    [[nodiscard]] std::error_code leave(Epoch last, WorkerId member, std::string_view reason) const;
    /// Why somebody has left, if nobody has opened an epoch after it.
    [[nodiscard]] std::optional<std::string> left_behind() const;

    /// A process of this host that belongs to the run. `name` is a file's name, unique in the run.
    [[nodiscard]] std::error_code record_process(std::string_view name, pid_t pid) const;
    /// By name; what cannot be read is left out.
    [[nodiscard]] std::vector<Recorded> recorded() const;
    /// Those of this host that live.
    [[nodiscard]] std::vector<Recorded> living() const;
    /// Where else processes were recorded, whether they live or not: "node2, node7", or nothing.
    [[nodiscard]] std::string other_hosts() const;

  private:
    explicit RunFolder(std::string path);
    [[nodiscard]] std::string place_of(std::string_view name) const;
    [[nodiscard]] std::string aside_of(std::string_view name) const;
    void lock_for_a_start();
    void put_former_run_away() const;
    void keep_lock();
    [[nodiscard]] ConfigError busy() const;

    std::string path_;
    std::string stop_path_;  // asked for between any two steps, as is the next
    std::string save_path_;
    std::string host_;
    std::string run_;
    bool taken_over_ = false;
    RunLock lock_;
    std::error_code lock_problem_;
};

}  // namespace rhizome::world
