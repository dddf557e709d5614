#include "world/fake_turns.hpp"

#include <sched.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <thread>
#include <utility>

namespace rhizome::world {
namespace {

constexpr Nanoseconds never = Nanoseconds::max();

/// Keeps this thread, and those that it starts, on one processor for a while. Since only one of
/// them runs at a time, a baton that never crosses over is five times as fast. Nothing else depends
/// on it, so it may fail.
class OneProcessor {
  public:
    OneProcessor() {
        CPU_ZERO(&before_);
        const int here = sched_getcpu();
        if (here < 0 || sched_getaffinity(0, sizeof before_, &before_) != 0) return;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(static_cast<std::size_t>(here), &one);
        changed_ = sched_setaffinity(0, sizeof one, &one) == 0;
    }
    ~OneProcessor() {
        if (changed_) sched_setaffinity(0, sizeof before_, &before_);
    }
    OneProcessor(const OneProcessor&) = delete;
    OneProcessor& operator=(const OneProcessor&) = delete;

  private:
    cpu_set_t before_{};
    bool changed_ = false;
};

}  // namespace

FakeTurns::FakeTurns(std::int32_t workers, FakeDraws& draws)
    : draws_{draws}, places_(static_cast<std::size_t>(workers)) {
    ENSURE(workers > 0);
    for (std::int32_t worker = 0; worker < workers; ++worker) {
        runnable_.emplace_back(worker);
    }
}

void FakeTurns::run(const std::function<void(WorkerId)>& body) {
    const OneProcessor here;
    std::vector<std::jthread> threads;
    threads.reserve(places_.size());
    // Without all of its threads a run could not even be unwound.
    const auto start = [&](WorkerId worker) noexcept {
        threads.emplace_back([this, &body, worker] {
            take_baton(worker);
            body(worker);
            leave(worker);
        });
    };
    for (std::int32_t worker = 0; std::cmp_less(worker, places_.size()); ++worker) {
        start(WorkerId{worker});
    }
    if (const auto first = choose()) give_baton(*first);
}

void FakeTurns::at(Nanoseconds time, std::function<void()> event) {
    events_.push({time, events_made_++, std::move(event)});
}

void FakeTurns::happen() {
    while (!events_.empty() && events_.top().time <= now()) {
        const std::function<void()> happen = events_.top().happen;
        events_.pop();
        happen();
    }
}

void FakeTurns::yield(WorkerId self) {
    make_runnable(self);
    hand_over(self);
    throw_failure();
}

void FakeTurns::wait(WorkerId self, FakeWait what, Nanoseconds until) {
    if (failed()) return throw_failure();
    Place& place = places_[self.index()];
    place.what = what;
    place.until = until;
    place.state = State::waiting;
    hand_over(self);
    throw_failure();
}

void FakeTurns::freeze(WorkerId self) {
    places_[self.index()].state = State::frozen;
    hand_over(self);
}

void FakeTurns::wake(WorkerId worker, FakeWait what) {
    const Place& place = places_[worker.index()];
    if (place.state == State::waiting && place.what == what) make_runnable(worker);
}

void FakeTurns::thaw(WorkerId worker) {
    const State state = places_[worker.index()].state;
    if (state == State::waiting || state == State::frozen) make_runnable(worker);
}

void FakeTurns::fail(const std::string& why) {
    failure_ = "fake world, at " + std::to_string(now().count()) + " ns: " + why;
    for (std::int32_t worker = 0; std::cmp_less(worker, places_.size()); ++worker) {
        failure_ += "\n  worker " + std::to_string(worker) + " " + where(WorkerId{worker});
    }
    for (std::int32_t worker = 0; std::cmp_less(worker, places_.size()); ++worker) {
        if (places_[WorkerId{worker}.index()].state == State::waiting) {
            make_runnable(WorkerId{worker});
        }
    }
}

void FakeTurns::throw_failure() const {
    if (failed() && std::uncaught_exceptions() == 0) throw std::runtime_error{failure_};
}

void FakeTurns::take_baton(WorkerId worker) {
    Place& place = places_[worker.index()];
    std::unique_lock lock{place.mutex};
    place.came.wait(lock, [&] { return place.has_baton; });
    place.has_baton = false;
}

void FakeTurns::give_baton(WorkerId worker) {
    Place& place = places_[worker.index()];
    {
        const std::scoped_lock lock{place.mutex};
        place.has_baton = true;
    }
    place.came.notify_one();
}

void FakeTurns::hand_over(WorkerId self) {
    const auto next = choose();
    ENSURE(next);  // this worker at the latest, since it has not ended
    if (*next == self) return;
    give_baton(*next);
    take_baton(self);
}

void FakeTurns::leave(WorkerId self) {
    places_[self.index()].state = State::ended;
    if (const auto next = choose()) give_baton(*next);
}

/// Nobody if all have ended.
std::optional<WorkerId> FakeTurns::choose() {
    while (true) {
        happen();
        if (!runnable_.empty()) {
            std::swap(runnable_[draws_.below(runnable_.size())], runnable_.back());
            const WorkerId chosen = runnable_.back();
            runnable_.pop_back();
            places_[chosen.index()].state = State::running;
            return chosen;
        }
        if (anybody(State::waiting)) {
            let_time_pass();
        } else if (!release_frozen()) {
            return std::nullopt;
        }
    }
}

void FakeTurns::make_runnable(WorkerId worker) {
    places_[worker.index()].state = State::runnable;
    runnable_.push_back(worker);
}

/// To the next event or the next end of somebody's wait.
void FakeTurns::let_time_pass() {
    Nanoseconds next = events_.empty() ? never : events_.top().time;
    for (const Place& place : places_) {
        if (place.state == State::waiting) next = std::min(next, place.until);
    }
    if (next == never) return fail("all wait, and nothing is going to happen");
    clock_.advance(std::max(next - now(), Nanoseconds{0}));
    for (std::int32_t worker = 0; std::cmp_less(worker, places_.size()); ++worker) {
        const Place& place = places_[WorkerId{worker}.index()];
        if (place.state == State::waiting && place.until <= now()) make_runnable(WorkerId{worker});
    }
}

bool FakeTurns::anybody(State state) const {
    return std::any_of(places_.begin(), places_.end(),
                       [state](const Place& place) { return place.state == state; });
}

bool FakeTurns::release_frozen() {
    for (std::int32_t worker = 0; std::cmp_less(worker, places_.size()); ++worker) {
        if (places_[WorkerId{worker}.index()].state == State::frozen) {
            make_runnable(WorkerId{worker});
            return true;
        }
    }
    return false;
}

std::string FakeTurns::where(WorkerId worker) const {
    const Place& place = places_[worker.index()];
    if (place.state == State::ended) return "has ended";
    if (place.state == State::frozen) return "is stopped";
    std::string text = "runs";
    if (place.state == State::waiting) {
        text = place.what == FakeWait::rest ? "rests" : "agrees";
        if (place.until != never) text += " until " + std::to_string(place.until.count()) + " ns";
    }
    return describe_ ? text + describe_(worker) : text;
}

}  // namespace rhizome::world
