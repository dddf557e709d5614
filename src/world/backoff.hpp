// How a process waits that shares its core with others: a few looks in a row, then everybody else
// first, then sleeps that grow with the time waited, of which each is a small part. So waiting adds
// little to a wait, and a worker that waits long takes little of a core.
#pragma once

#include <sched.h>

#include <algorithm>
#include <thread>

#include "core/clock.hpp"

namespace rhizome::world {

class Backoff {
  public:
    /// Between two looks at what is waited for. Never much longer than that.
    void wait(Nanoseconds at_most) {
        if (looks_ < spins) {
            ++looks_;
        } else if (looks_ < spins + yields) {
            ++looks_;
            sched_yield();
        } else if (at_most.count() > 0) {
            std::this_thread::sleep_for(std::min(pause_, at_most));
            slept_ += pause_;
            pause_ = std::clamp(slept_ / 128, std::min(2 * pause_, pause_soon), pause_max);
        }
    }

  private:
    static constexpr int spins = 32;
    static constexpr int yields = 32;
    static constexpr Nanoseconds pause_first{5'000};
    static constexpr Nanoseconds pause_soon{50'000};  // timers wake about as late as that anyway
    static constexpr Nanoseconds pause_max{1'000'000};

    int looks_ = 0;
    Nanoseconds slept_{0};
    Nanoseconds pause_{pause_first};
};

}  // namespace rhizome::world
