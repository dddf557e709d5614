// Whose turn it is in a fake world, and what time. The baton is the right to run; whoever gives it
// up draws who has it next, and lets time pass if nobody can go on. So everything that the workers
// share is used by the holder of the baton alone and needs no other lock.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "core/ids.hpp"
#include "world/fake_draws.hpp"

namespace rhizome::world {

/// What a worker waits for.
enum class FakeWait : std::uint8_t { rest, agree };

class FakeTurns {
  public:
    FakeTurns(std::int32_t workers, FakeDraws& draws);

    /// Runs the body of every worker, which must not throw, to its end.
    void run(const std::function<void(WorkerId)>& body);
    /// What a report of a stuck run says about a worker beyond where it waits.
    void describe_with(std::function<std::string(WorkerId)> describe) {
        describe_ = std::move(describe);
    }

    [[nodiscard]] const Clock& clock() const { return clock_; }
    [[nodiscard]] Nanoseconds now() const { return clock_.now(); }

    /// Events of one time happen in the order in which they were put here.
    void at(Nanoseconds time, std::function<void()> event);
    /// Those whose time has come.
    void happen();

    // For the worker that runs. Each returns when it has its turn again. The first two throw if the
    // run is stuck, unless an exception is being thrown already.
    void yield(WorkerId self);
    /// Until wake() or this time; the largest time means no deadline.
    void wait(WorkerId self, FakeWait what, Nanoseconds until);
    /// Until thaw(), or until all others have ended.
    void freeze(WorkerId self);

    /// Does nothing unless the worker waits for that.
    void wake(WorkerId worker, FakeWait what);
    /// Ends whatever keeps a worker waiting.
    void thaw(WorkerId worker);

    /// Gives the run up: all who wait, and all who wait later, throw this and where each worker is.
    void fail(const std::string& why);
    [[nodiscard]] bool failed() const { return !failure_.empty(); }
    void throw_failure() const;

  private:
    enum class State : std::uint8_t { runnable, running, waiting, frozen, ended };
    struct Place {
        std::mutex mutex;
        std::condition_variable came;
        bool has_baton = false;

        State state = State::runnable;
        FakeWait what = FakeWait::rest;  // while waiting
        Nanoseconds until{0};            // while waiting
    };
    struct Event {
        Nanoseconds time;
        std::uint64_t number;
        std::function<void()> happen;
    };
    struct Later {
        bool operator()(const Event& one, const Event& other) const {
            return one.time != other.time ? one.time > other.time : one.number > other.number;
        }
    };

    void take_baton(WorkerId worker);
    void give_baton(WorkerId worker);
    void hand_over(WorkerId self);
    void leave(WorkerId self);
    std::optional<WorkerId> choose();
    void make_runnable(WorkerId worker);
    void let_time_pass();
    [[nodiscard]] bool anybody(State state) const;
    bool release_frozen();
    [[nodiscard]] std::string where(WorkerId worker) const;

    FakeDraws& draws_;
    ManualClock clock_;
    std::vector<Place> places_;       // by worker
    std::vector<WorkerId> runnable_;  // in no order that means anything
    std::priority_queue<Event, std::vector<Event>, Later> events_;
    std::uint64_t events_made_ = 0;
    std::string failure_;
    std::function<std::string(WorkerId)> describe_;
};

}  // namespace rhizome::world
