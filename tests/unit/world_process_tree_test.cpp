// Real processes are in tests/world/process_tree_test.py.
#include "world/process_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace rhizome::world {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Verdict = Judgement::Verdict;

constexpr WatchBounds bounds{.stopped = 1s, .stuck = 4s};
constexpr Nanoseconds tick = 100ms;

TEST(WatchBounds, AreOrdered) {
    EXPECT_EQ(find_fault(bounds), std::nullopt);
    EXPECT_EQ(find_fault({.stopped = 10ms, .stuck = 11ms}), std::nullopt);
    EXPECT_EQ(find_fault({.stopped = 1s, .stuck = Nanoseconds::max()}), std::nullopt);
    EXPECT_THAT(find_fault({.stopped = 9ms, .stuck = 1s}).value(), HasSubstr("below 10 ms"));
    EXPECT_THAT(find_fault({.stopped = -1s, .stuck = 1s}).value(), HasSubstr("below 10 ms"));
    EXPECT_THAT(find_fault({.stopped = 1s, .stuck = 1s}).value(), HasSubstr("not above"));
}

TEST(Judgement, LooksSeveralTimesWithinTheSmallerBound) {
    EXPECT_EQ(Judgement{bounds}.look_interval(), 125ms);
    EXPECT_EQ((Judgement{{.stopped = 10ms, .stuck = 1s}}.look_interval()), 1250us);
    EXPECT_EQ((Judgement{{.stopped = 100s, .stuck = 200s}}.look_interval()), 1s);
}

TEST(Judgement, LetsARankThatBeatsLiveForEver) {
    Judgement judgement{bounds};
    for (std::uint64_t beats = 1; beats < 1000; ++beats) {
        ASSERT_EQ(judgement.look(tick, beats, 0s), Verdict::fine);
    }
}

TEST(Judgement, CallsARankStuckWhenItsSilenceIsLongerThanTheBound) {
    Judgement judgement{bounds};
    EXPECT_EQ(judgement.look(tick, 7, 0s), Verdict::fine);
    for (int look = 0; look < 40; ++look) ASSERT_EQ(judgement.look(tick, 7, 0s), Verdict::fine);
    EXPECT_EQ(judgement.look(tick, 7, 0s), Verdict::stuck);
}

TEST(Judgement, LetsARankWaitAsLongAsItSaidAndTheBoundBesides) {
    Judgement judgement{bounds};
    for (int look = 0; look < 140; ++look) {
        ASSERT_EQ(judgement.look(tick, 0, 10s), Verdict::fine);
    }
    EXPECT_EQ(judgement.look(tick, 0, 10s), Verdict::stuck);
    // The longest of all waits is no overflow, and the end of one comes with a beat.
    EXPECT_EQ(judgement.look(tick, 0, Nanoseconds::max()), Verdict::fine);
    EXPECT_EQ(judgement.look(tick, 1, 0s), Verdict::fine);
}

TEST(Judgement, CallsARankStoppedBeforeItIsStuck) {
    Judgement judgement{bounds};
    judgement.see_stopped();
    // The time before the first look counts for nothing: it began while the rank was running.
    for (int look = 0; look < 11; ++look) ASSERT_EQ(judgement.look(tick, 0, 9s), Verdict::fine);
    EXPECT_EQ(judgement.look(tick, 0, 9s), Verdict::stopped);
}

TEST(Judgement, ForgetsAStopThatIsOver) {
    Judgement judgement{bounds};
    for (std::uint64_t time = 1; time < 20; ++time) {
        judgement.see_stopped();
        for (int look = 0; look < 9; ++look) {
            ASSERT_EQ(judgement.look(tick, time, 0s), Verdict::fine);
        }
        judgement.see_continued();
    }
    for (int look = 0; look < 20; ++look) ASSERT_EQ(judgement.look(tick, 20, 0s), Verdict::fine);
}

TEST(Judgement, DoesNotCountTimeInWhichNobodyLooked) {
    Judgement judgement{bounds};
    judgement.see_stopped();
    EXPECT_EQ(judgement.look(1h, 0, 0s), Verdict::fine);
    EXPECT_EQ(judgement.look(1h, 0, 0s), Verdict::fine);  // counts as a quarter of a second
    EXPECT_EQ(judgement.look(1h, 0, 0s), Verdict::fine);
    EXPECT_EQ(judgement.look(1h, 0, 0s), Verdict::fine);
    EXPECT_EQ(judgement.look(1h, 0, 0s), Verdict::fine);
    EXPECT_EQ(judgement.look(1h, 0, 0s), Verdict::stopped);
}

TEST(Pulse, CountsBeats) {
    Pulse pulse;
    EXPECT_EQ(pulse.beats(), 0U);
    for (int beat = 0; beat < 5; ++beat) pulse.beat();
    EXPECT_EQ(pulse.beats(), 5U);
}

TEST(Pulse, KnowsTheLongestOfTheWaitsThatGoOn) {
    Pulse pulse;
    EXPECT_EQ(pulse.patience(), 0s);
    {
        const Pulse::Waiting outer{pulse, 5s};
        EXPECT_EQ(pulse.patience(), 5s);
        {
            const Pulse::Waiting shorter{pulse, 3s};
            EXPECT_EQ(pulse.patience(), 5s);
        }
        {
            const Pulse::Waiting longer{pulse, 9s};
            EXPECT_EQ(pulse.patience(), 9s);
        }
        EXPECT_EQ(pulse.patience(), 5s);
    }
    EXPECT_EQ(pulse.patience(), 0s);
    EXPECT_EQ(pulse.beats(), 6U);  // each beginning and each end is a sign of life
}

}  // namespace
}  // namespace rhizome::world
