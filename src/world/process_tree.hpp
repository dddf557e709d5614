// What a rank does before MPI_Init: it becomes the last of three processes.
//
//   proxy   the launcher's child. A launcher that loses a daemon or is told to end kills its
//           children and their process groups: that hits proxies, and no rank. It ends as the watch
//           ends, by the same signal or with the same code, so the launcher reports a death at
//           once.
//   watch   in a session of its own. Kills a rank that is stopped or stuck, since such a rank
//           blocks everybody for ever, and MPI never notices. Ends as the rank ends.
//   rank    everything else. Dies with its watch.
//
// Proxy and watch take no part in MPI, print nothing to standard output and dump no core. Nobody
// leaves a zombie. (Open MPI 5: research on lost daemons is behind every line of this.)
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "core/clock.hpp"

namespace rhizome::world {

/// How long the watch looks on.
struct WatchBounds {
    Nanoseconds stopped;  // by SIGSTOP or the like
    Nanoseconds stuck;    // running or asleep, without a beat
};

/// What is wrong with them, for the first two parts of "problem (reason), hint".
[[nodiscard]] std::optional<std::string> find_fault(const WatchBounds& bounds);

/// Signs of life of a rank, in memory that it shares with its watch. Any thread may give them, and
/// thousands of times a second.
class Pulse {
  public:
    /// Says that others are waited for, and for how long at most: the rank is not stuck before that
    /// time and the bound are over. One inside another only makes it longer. By one thread only.
    class Waiting {
      public:
        Waiting(Pulse& pulse, Nanoseconds at_most);
        ~Waiting();
        Waiting(const Waiting&) = delete;
        Waiting& operator=(const Waiting&) = delete;

      private:
        Pulse& pulse_;
        std::int64_t before_;
    };

    /// Without a watch: for a rank that was not split, and for tests.
    Pulse();
    ~Pulse();
    Pulse(const Pulse&) = delete;
    Pulse& operator=(const Pulse&) = delete;

    void beat() { shared_->beats.fetch_add(1, std::memory_order_relaxed); }

    [[nodiscard]] std::uint64_t beats() const;
    /// Of the wait that is going on; otherwise 0.
    [[nodiscard]] Nanoseconds patience() const;

  private:
    struct Shared {
        std::atomic<std::uint64_t> beats;
        std::atomic<std::int64_t> patience_ns;
    };
    static_assert(std::atomic<std::uint64_t>::is_always_lock_free);  // two processes share them

    Shared* shared_;
};

/// What a watch makes of what it sees, apart from any process.
class Judgement {
  public:
    enum class Verdict : std::uint8_t { fine, stopped, stuck };

    explicit Judgement(const WatchBounds& bounds) : bounds_{bounds} {}

    /// The longest time between two looks. Of what was longer only twice as much counts: then the
    /// watch itself did not get to run, and a machine that slept must kill nobody.
    [[nodiscard]] Nanoseconds look_interval() const;

    void see_stopped();
    void see_continued();
    /// `passed` since the last look.
    [[nodiscard]] Verdict look(Nanoseconds passed, std::uint64_t beats, Nanoseconds patience);

  private:
    WatchBounds bounds_;
    bool stopped_ = false;
    bool just_stopped_ = false;  // then the time before the next look was not all like that
    Nanoseconds stopped_for_{0};
    Nanoseconds silent_for_{0};
    std::uint64_t beats_ = 0;
};

/// Returns in the rank only; proxy and watch end inside. To be called before a thread is started
/// and before anything that must not be in three processes is opened. Throws ConfigError where the
/// system gives no processes.
[[nodiscard]] std::unique_ptr<Pulse> split_into_watched_rank(const WatchBounds& bounds);

}  // namespace rhizome::world
