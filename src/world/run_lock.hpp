// Who has a run's folder. FOLDER/lock is held by everybody who belongs to the run, its launcher and
// its ranks, from start to end, with a shared lock (flock). Whoever begins a run takes the
// exclusive one first. The kernel lets go when a process dies, in whatever way: a run is dead when
// nobody holds its lock.
//
// The file names the run in it, so that nobody joins another one than its own. It is never removed:
// a lock belongs to a file, not to a name. And nobody ever waits for one.
//
// docs/RUNS.md says what that is worth on which file system.
#pragma once

#include <cstdint>
#include <string>
#include <system_error>

namespace rhizome::world {

class RunLock {
  public:
    enum class Kind : std::uint8_t { shared, exclusive };

    /// Has no file and holds nothing.
    RunLock() = default;
    ~RunLock();
    RunLock(RunLock&& other) noexcept;
    RunLock& operator=(RunLock&& other) noexcept;

    /// Makes the file if it is not there. Holds nothing yet. Once.
    [[nodiscard]] std::error_code open(const std::string& path);

    /// Without waiting, and also from one kind to the other, which is not atomic: somebody else may
    /// be faster. On any problem nothing is held any more.
    [[nodiscard]] std::error_code hold(Kind kind);

    /// What the file says: a name of one line. Empty if it says nothing or cannot be read.
    [[nodiscard]] std::string name() const;
    /// For whoever holds it exclusively.
    [[nodiscard]] std::error_code set_name(const std::string& name);

  private:
    int file_ = -1;
};

/// Whether such a problem of hold() means that somebody else holds the lock.
[[nodiscard]] bool is_taken(const std::error_code& problem);
/// Or that the file system has no locks.
[[nodiscard]] bool has_no_locks(const std::error_code& problem);

}  // namespace rhizome::world
