// What is shown of a timeline: shares of the time, and a picture. Of one written by hand, and of
// runs on a paced device, which have to agree with the dry run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/timeline_shares.hpp"
#include "cli/timeline_svg.hpp"
#include "cli/times.hpp"
#include "unit/cli_recorded_run.hpp"

namespace rhizome::cli {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

schedule::Instruction compute(schedule::Kind kind, std::int32_t microbatch) {
    return {.kind = kind, .microbatch = Microbatch{microbatch}};
}

/// A step of 100: forward, a wait in which the device still works, an exchange with a wait in it.
WorkerTimeline by_hand() {
    return {.worker = WorkerId{2},
            .spans = {{0, {0ns, 100ns}, engine::TurnKind::step},
                      {0, {10ns, 30ns}, compute(schedule::Kind::forward, 0)},
                      {0, {25ns, 40ns}, engine::Wait{engine::Awaited::message, WorkerId{1}}},
                      {0, {40ns, 50ns}, compute(schedule::Kind::backward, 0)},
                      {0, {50ns, 90ns}, schedule::Instruction{.kind = schedule::Kind::commit}},
                      {0, {60ns, 65ns}, engine::Wait{engine::Awaited::sends}},
                      {0, {90ns, 95ns}, schedule::Instruction{.kind = schedule::Kind::update}},
                      {0, {200ns, 300ns}, engine::TurnKind::evaluation},
                      {0, {210ns, 220ns}, compute(schedule::Kind::forward, 0)}}};
}

TEST(TimelineShares, GiveEachMomentToOneUse) {
    const WorkerShares shares =
        shares_of(Timeline{.steps = {0, 0}, .workers = {by_hand()}}).front();
    EXPECT_EQ(shares.steps, 1);
    EXPECT_EQ(shares.time, 100ns);
    EXPECT_EQ(shares[TimeUse::forward], 20ns);
    EXPECT_EQ(shares[TimeUse::backward], 10ns);
    EXPECT_EQ(shares[TimeUse::update], 5ns);
    EXPECT_EQ(shares[TimeUse::wait], 10ns + 5ns);
    EXPECT_EQ(shares[TimeUse::exchange], 35ns);
    EXPECT_EQ(shares[TimeUse::other], 15ns);
    EXPECT_DOUBLE_EQ(shares.bubble_share(), 0.7);
    EXPECT_EQ(shares.longest, (engine::Wait{engine::Awaited::message, WorkerId{1}}));
    EXPECT_EQ(table_of({shares}),
              "worker     seconds    forward   backward     update   exchange      waits      other"
              "    bubble  waits most for\n"
              "2            0.000     20.0 %     10.0 %      5.0 %     35.0 %     15.0 %     15.0 %"
              "    70.0 %  worker 1 (0.01 µs)\n");
}

TEST(TimelineShares, OfARunAreThoseOfItsDryRun) {
    const RecordedRun run{3};
    const Timelines all = read_timelines(*state::make_file_system(), run.folder.path());
    const auto shares = shares_of(all.timeline);
    const tests::SmallOptions options{.rows = 1, .lanes = {8, 4}, .blocks = 3};
    const schedule::DryRun dry =
        tests::dry_run_of(options, {.depths = {3}}, tests::Accelerator{}, 3);
    for (std::size_t w = 0; w < 3; ++w) {
        EXPECT_EQ(shares[w].steps, 2);
        const double busy = dry.workers[w].busy_s / dry.makespan_s;
        EXPECT_NEAR(1 - shares[w].bubble_share(), busy, 0.02);
        Nanoseconds sum{0};
        for (const Nanoseconds used : shares[w].used) sum += used;
        EXPECT_EQ(sum, shares[w].time);
    }
}

std::size_t count_of(std::string_view part, std::string_view text) {
    std::size_t count = 0;
    for (std::size_t at = text.find(part); at != std::string_view::npos;
         at = text.find(part, at + 1)) {
        ++count;
    }
    return count;
}

TEST(TimelinePicture, ShowsComputationsAndWaitsOfEachWorker) {
    const RecordedRun run{3};
    const Timelines all = read_timelines(*state::make_file_system(), run.folder.path());
    const std::string svg = draw_svg(all.timeline, 2400);
    for (const std::string name :
         {">worker 0<", ">worker 2<", ">step 1<", ">step 2<", ">forward<", ">backward<",
          ">wait for a worker<", ">bubble<", ">commit<", ">time in ms<", "3 workers, 2 steps"}) {
        EXPECT_EQ(count_of(name, svg), 1U) << name;
    }
    // In two steps and an evaluation of three microbatches; and one of the legend.
    EXPECT_EQ(count_of("<rect class=\"F\"", svg), 3 * (2 * 8 + 3) + 1U);
    EXPECT_EQ(count_of("<rect class=\"B\"", svg), 3 * 2 * 8 + 1U);
    EXPECT_EQ(count_of("<title>F2:7 of step 2, ", svg), 1U);
    EXPECT_EQ(count_of("<path class=\"wait\"", svg), 1U);
    EXPECT_EQ(count_of("nan", svg) + count_of("inf", svg) + count_of("&", svg), 0U);
    EXPECT_THAT(svg, AllOf(HasSubstr("viewBox=\"0 0 2400 "), Not(HasSubstr(">save<"))));
}

TEST(TimelinePicture, IsSmallHoweverManySpansThereAre) {
    Timeline timeline{.steps = {0, 0}};
    for (std::int32_t w = 0; w < 4; ++w) {
        WorkerTimeline worker{.worker = WorkerId{w}};
        worker.spans.push_back({0, {0ns, 50'000us}, engine::TurnKind::step});
        for (std::int32_t i = 0; i < 50'000; ++i) {
            const Nanoseconds begin = i * 1us;
            worker.spans.push_back(
                {0, {begin, begin + 500ns}, compute(schedule::Kind::forward, i)});
            worker.spans.push_back({0,
                                    {begin + 500ns, begin + 1us},
                                    engine::Wait{engine::Awaited::message, WorkerId{0}}});
        }
        timeline.workers.push_back(std::move(worker));
    }
    EXPECT_LT(draw_svg(timeline, 1200).size(), 1'000'000U);
}

TEST(TimelinePicture, OfNothingIsAPictureToo) {
    EXPECT_THAT(draw_svg(Timeline{}, 600), HasSubstr("</svg>"));
    Timeline timeline;
    timeline.workers.push_back({.worker = WorkerId{0}});
    timeline.workers.front().spans.push_back({0, {5ns, 5ns}, engine::TurnKind::step});
    EXPECT_EQ(count_of("nan", draw_svg(timeline, 600)), 0U);
    EXPECT_THAT(table_of(shares_of(timeline)), HasSubstr("0.0"));
}

TEST(Times, AreSetsOfMoments) {
    const Times one{{0ns, 10ns}, {20ns, 30ns}, {40ns, 41ns}};
    const Times two{{5ns, 22ns}, {25ns, 26ns}, {41ns, 50ns}};
    EXPECT_EQ(common(one, two), (Times{{5ns, 10ns}, {20ns, 22ns}, {25ns, 26ns}}));
    EXPECT_EQ(common(two, one), common(one, two));
    EXPECT_EQ(without(one, two), (Times{{0ns, 5ns}, {22ns, 25ns}, {26ns, 30ns}, {40ns, 41ns}}));
    EXPECT_EQ(without(two, one), (Times{{10ns, 20ns}, {41ns, 50ns}}));
    EXPECT_EQ(without(one, {}), one);
    EXPECT_EQ(without({}, one), Times{});
    EXPECT_EQ(united({{20ns, 25ns}, {0ns, 5ns}, {7ns, 7ns}, {5ns, 6ns}, {21ns, 22ns}}),
              (Times{{0ns, 6ns}, {20ns, 25ns}}));
    EXPECT_EQ(sum(one), 21ns);
}

}  // namespace
}  // namespace rhizome::cli
