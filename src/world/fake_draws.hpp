// All chance of a fake world: one stream of numbers from a seed. The distributions are written out,
// because those of the standard library differ from one library to the next.
#pragma once

#include <cstdint>

#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/philox.hpp"

namespace rhizome::world {

class FakeDraws {
  public:
    explicit FakeDraws(std::uint64_t seed)
        : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)} {}

    [[nodiscard]] std::size_t below(std::size_t limit) {
        ENSURE(limit > 0);
        return static_cast<std::size_t>(word() % limit);
    }
    [[nodiscard]] bool chance(double probability) {
        return static_cast<double>(word() >> 11) * 0x1p-53 < probability;
    }
    /// Both ends may be drawn.
    [[nodiscard]] Nanoseconds between(Nanoseconds least, Nanoseconds most) {
        ENSURE(Nanoseconds{0} <= least && least <= most);
        const auto choices = static_cast<std::uint64_t>((most - least).count()) + 1;
        return least + Nanoseconds{static_cast<Nanoseconds::rep>(word() % choices)};
    }

  private:
    std::uint64_t word() {
        const std::uint64_t place = place_++;
        const PhiloxCounter words = philox4x32_10(
            {static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(place >> 32), 0, 0},
            key_);
        return words[0] | static_cast<std::uint64_t>(words[1]) << 32;
    }

    PhiloxKey key_;
    std::uint64_t place_ = 0;
};

}  // namespace rhizome::world
