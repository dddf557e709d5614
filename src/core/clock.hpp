// Time as an argument: the real clock in programs, a hand-set one in tests and simulations.
#pragma once

#include <chrono>

namespace rhizome {

using Nanoseconds = std::chrono::nanoseconds;

/// Of seconds as people and formulas give them; below 292 years.
[[nodiscard]] constexpr Nanoseconds to_nanoseconds(double seconds) {
    return std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>{seconds});
}

class Clock {
  public:
    virtual ~Clock() = default;
    /// Time since an arbitrary start; never goes back.
    [[nodiscard]] virtual Nanoseconds now() const = 0;
};

class SteadyClock final : public Clock {
  public:
    [[nodiscard]] Nanoseconds now() const override {
        return std::chrono::steady_clock::now().time_since_epoch();
    }
};

class ManualClock final : public Clock {
  public:
    [[nodiscard]] Nanoseconds now() const override { return now_; }
    void advance(Nanoseconds by) { now_ += by; }

  private:
    Nanoseconds now_{0};
};

}  // namespace rhizome
