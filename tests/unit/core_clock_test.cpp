#include "core/clock.hpp"

#include <gtest/gtest.h>

namespace rhizome {
namespace {

using std::chrono::milliseconds;

TEST(ManualClock, MovesOnlyByHand) {
    ManualClock clock;
    const Clock& seen = clock;
    EXPECT_EQ(seen.now(), Nanoseconds{0});
    clock.advance(milliseconds{5});
    EXPECT_EQ(seen.now(), milliseconds{5});
    clock.advance(Nanoseconds{1});
    EXPECT_EQ(seen.now(), Nanoseconds{5000001});
    EXPECT_EQ(seen.now(), Nanoseconds{5000001});
}

TEST(SteadyClock, AdvancesAndNeverGoesBack) {
    const SteadyClock clock;
    const Nanoseconds start = clock.now();
    Nanoseconds last = start;
    while (last == start) {  // ends with the clock's next tick
        const Nanoseconds now = clock.now();
        ASSERT_GE(now, last);
        last = now;
    }
    EXPECT_GT(last, start);
}

}  // namespace
}  // namespace rhizome
