// Timelines of real runs on the fake world, with times of a paced device: as files, put together,
// as a table and as a picture. JSON is read back by a reader that does not know how it was made.
#include "cli/timeline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/timeline_shares.hpp"
#include "cli/timeline_svg.hpp"
#include "cli/times.hpp"
#include "support/paced_run.hpp"
#include "unit/data_temp_folder.hpp"
#include "world/fake_world.hpp"

namespace rhizome::cli {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Json = nlohmann::json;

constexpr Nanoseconds wall{1'800'000'000'000'000'000};

struct Lines {
    std::vector<std::string> lines;
    Log log{[this](std::string_view line) { lines.emplace_back(line); }};
};

std::string content_of(const std::string& path) {
    std::stringstream text;
    text << std::ifstream{path}.rdbuf();
    return text.str();
}

/// A run of five steps whose steps 1 to 2 are recorded, evaluated after every second step.
struct RecordedRun {
    explicit RecordedRun(std::int32_t workers, std::int64_t spans_max = 100'000) {
        using namespace tests;  // NOLINT: of the engine on the fake world
        const SmallOptions options{.rows = 1, .lanes = {8, 4}, .blocks = 3};
        const model::Network network = network_of(options);
        const MemoryText text = small_text();
        const Subject subject{network, text, options.rows, options.lanes};
        const auto outcomes =
            world::run_fake_world({.workers = workers, .seed = 1}, [&](world::World& world) {
                const auto inner = device::make_reference_device(1);
                const auto device = device::make_paced_device(
                    *inner, pace_of(costs_of(Accelerator{}, network.table())), world.clock());
                TimelineFile timeline{state::make_file_system(),
                                      {.folder = folder.path(),
                                       .steps = {1, 2},
                                       .worker = world.self(),
                                       .members = world.members(),
                                       .wall_offset = wall,
                                       .spans_max = spans_max},
                                      lines.log};
                const Arrangement arrangement{.depths = {workers}};
                const WorkerEnd end =
                    run_worker(world, *device, subject, arrangement,
                               {.steps = 5, .evaluate_interval = 2, .evaluation_microbatches = 3},
                               60s, &timeline);
                EXPECT_EQ(end.end.status, CommStatus::ok);
                timeline.finish();
            });
        for (const auto& outcome : outcomes) {
            if (outcome.error) std::rethrow_exception(outcome.error);
        }
    }

    [[nodiscard]] std::string file(std::string_view name) const {
        return folder.path() + "/timeline/" + std::string{name};
    }

    data::TempFolder folder;
    Lines lines;
};

const Json& events_of(const Json& file) { return file.at("traceEvents"); }

std::vector<Json> events_of(const Json& file, const std::string& category) {
    std::vector<Json> events;
    for (const Json& event : events_of(file)) {
        if (event.value("cat", "") == category && event.at("ph") == "X") events.push_back(event);
    }
    return events;
}

/// What every trace viewer wants to find.
void expect_trace(const Json& file) {
    std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> threads;
    std::map<std::pair<int, int>, std::string> names;
    for (const Json& event : events_of(file)) {
        const std::string phase = event.at("ph");
        const std::pair<int, int> thread{event.at("pid"), event.at("tid")};
        ASSERT_GE(thread.first, 1);
        ASSERT_TRUE(event.at("name").is_string());
        if (phase == "X") {
            const double begin = event.at("ts");
            EXPECT_GE(begin, 0);
            threads[thread].emplace_back(begin, begin + event.at("dur").get<double>());
        } else if (phase == "M") {
            if (event.at("name") == "thread_name") names[thread] = event.at("args").at("name");
        } else {
            ASSERT_TRUE(phase == "s" || phase == "f") << phase;
            EXPECT_LT(event.at("id").get<std::uint64_t>(), std::uint64_t{1} << 53U);
        }
    }
    for (auto& [thread, spans] : threads) {
        EXPECT_TRUE(names.contains(thread));
        double end = 0;
        for (const auto& [begin, its_end] : spans) {
            EXPECT_GE(begin, end - 1e-6) << names[thread];
            end = its_end;
        }
    }
}

TEST(TimelineFile, IsATraceOfTheStepsThatWereAskedFor) {
    const RecordedRun run{3};
    EXPECT_THAT(run.lines.lines, IsEmpty());
    const Json file = Json::parse(content_of(run.file("worker-00001.json")));
    expect_trace(file);
    std::vector<std::string> turns;
    for (const Json& event : events_of(file, "step")) turns.push_back(event.at("name"));
    EXPECT_THAT(turns, ElementsAre("step 1", "evaluation", "step 2"));
    std::map<std::string, int> forwards;  // of the two steps, and of the evaluation
    for (const Json& event : events_of(file, "compute")) {
        if (event.at("args").at("kind") == "F") ++forwards[event.at("name")];
        EXPECT_GE(event.at("args").at("step"), 1);
        EXPECT_LE(event.at("args").at("step"), 2);
    }
    EXPECT_EQ(forwards.size(), 8U);
    EXPECT_EQ(forwards["F1:0"], 3);
    EXPECT_EQ(forwards["F1:7"], 2);
    EXPECT_FALSE(events_of(file, "wait").empty());
    EXPECT_EQ(file.at("otherData").at("members"), Json({0, 1, 2}));
    const auto names = run.folder.path() + "/timeline";
    for (const auto& entry : std::filesystem::directory_iterator{names}) {
        EXPECT_EQ(entry.path().extension(), ".json");  // nothing is left aside
    }
}

TEST(TimelineFile, ReadsBackAsItWas) {
    const RecordedRun run{2};
    const std::string text = content_of(run.file("worker-00000.json"));
    auto read = parse_timeline(text);
    ASSERT_TRUE(std::holds_alternative<Timeline>(read));
    const auto& timeline = std::get<Timeline>(read);
    EXPECT_GE(timeline.origin, wall);
    EXPECT_EQ(timeline.steps, (StepRange{1, 2}));
    std::string again;
    write_json(timeline, [&](std::string_view piece) { again += piece; });
    auto twice = parse_timeline(again);
    ASSERT_TRUE(std::holds_alternative<Timeline>(twice));
    EXPECT_EQ(std::get<Timeline>(twice), timeline);
    EXPECT_EQ(again, text);
}

TEST(TimelineFile, CountsWhatItHasNoRoomFor) {
    const RecordedRun run{1, 20};
    ASSERT_EQ(run.lines.lines.size(), 1U);
    EXPECT_THAT(run.lines.lines.front(), AllOf(HasSubstr("no room for"), HasSubstr("fewer steps")));
    const auto read = parse_timeline(content_of(run.file("worker-00000.json")));
    const auto& worker = std::get<Timeline>(read).workers.front();
    EXPECT_EQ(worker.spans.size(), 20U);
    EXPECT_GT(worker.left_out, 20);
}

TEST(TimelineFile, OfARunThatEndsEarlyHasWhatThereWas) {
    const data::TempFolder folder;
    Lines lines;
    TimelineFile timeline{state::make_file_system(),
                          {.folder = folder.path(),
                           .steps = {3, 9},
                           .worker = WorkerId{0},
                           .members = {WorkerId{0}},
                           .wall_offset = wall},
                          lines.log};
    timeline.named("save", {0ns, 5ns});  // nobody asked for that
    timeline.begin_turn(engine::TurnKind::step, Step{3});
    timeline.end_turn({10ns, 20ns});
    timeline.named("save", {5ns, 25ns});
    timeline.finish();
    timeline.finish();
    const auto read = parse_timeline(content_of(folder.path() + "/timeline/worker-00000.json"));
    const auto& found = std::get<Timeline>(read);
    EXPECT_EQ(found.origin, wall + 5ns);
    EXPECT_EQ(found.workers.front().spans,
              (std::vector<TimelineSpan>{{3, {5ns, 15ns}, engine::TurnKind::step},
                                         {3, {0ns, 20ns}, std::string{"save"}}}));
}

TEST(TimelineFile, OfStepsThatNeverCameIsNone) {
    const data::TempFolder folder;
    Lines lines;
    TimelineFile timeline{
        state::make_file_system(),
        {.folder = folder.path(), .steps = {3, 9}, .worker = WorkerId{0}, .wall_offset = wall},
        lines.log};
    timeline.begin_turn(engine::TurnKind::step, Step{10});  // the run goes on from there
    timeline.end_turn({10ns, 20ns});
    timeline.finish();
    EXPECT_FALSE(std::filesystem::exists(folder.path("timeline")));
    EXPECT_THAT(lines.lines, IsEmpty());
}

TEST(TimelineFile, WithTroubleIsAWarningAndNothingElse) {
    const data::TempFolder folder;
    static_cast<void>(folder.write("timeline", "in the way"));
    Lines lines;
    TimelineFile timeline{
        state::make_file_system(),
        {.folder = folder.path(), .steps = {0, 1}, .worker = WorkerId{0}, .wall_offset = wall},
        lines.log};
    for (std::int32_t step = 0; step < 4; ++step) {
        timeline.begin_turn(engine::TurnKind::step, Step{step});
        timeline.end_turn({10ns, 20ns});
    }
    timeline.finish();
    ASSERT_EQ(lines.lines.size(), 1U);
    EXPECT_THAT(lines.lines.front(), HasSubstr("training goes on"));
}

TEST(MergedTimeline, HasAllWorkersOnOneClock) {
    const RecordedRun run{3};
    Lines lines;
    const auto files = state::make_file_system();
    merge_timelines(*files, run.folder.path(), lines.log);
    merge_timelines(*files, run.folder.path(), lines.log);  // again, in its place
    EXPECT_THAT(lines.lines, IsEmpty());
    const Json file = Json::parse(content_of(run.folder.path("timeline.json")));
    expect_trace(file);
    // Each message begins and ends an arrow. Those of the evaluation and of the steps differ.
    std::map<std::uint64_t, std::vector<std::string>> arrows;
    double first = 1e9;
    for (const Json& event : events_of(file)) {
        if (event.contains("id")) arrows[event.at("id")].push_back(event.at("ph"));
        if (event.at("ph") == "X") first = std::min(first, event.at("ts").get<double>());
    }
    EXPECT_EQ(first, 0);
    std::size_t whole = 0;
    for (auto& [id, ends] : arrows) {
        std::sort(ends.begin(), ends.end());
        if (ends == std::vector<std::string>{"f", "s"}) ++whole;
    }
    EXPECT_GT(whole, 2 * 2 * 2 * 8U);
    EXPECT_EQ(whole, arrows.size());
    // A message arrives after it was sent, which it does not if their clocks disagree.
    std::map<std::string, double> sent;
    for (const Json& event : events_of(file, "send")) {
        if (event.at("pid") == 1 && event.at("args").at("peer") == 1) {
            sent.emplace(event.at("args").dump(), event.at("ts"));
        }
    }
    std::size_t received = 0;
    for (const Json& event : events_of(file, "receive")) {
        if (event.at("pid") != 2 || event.at("args").at("peer") != 0) continue;
        Json arguments = event.at("args");
        arguments["peer"] = 1;
        ASSERT_TRUE(sent.contains(arguments.dump()));
        EXPECT_GE(event.at("ts").get<double>() + event.at("dur").get<double>(),
                  sent.at(arguments.dump()));
        ++received;
    }
    EXPECT_EQ(received, sent.size());
}

TEST(MergedTimeline, IsMadeOfTimesThatBeganApart) {
    const auto timeline = [](std::int32_t worker, Nanoseconds origin) {
        Timeline result{.steps = {1, 2}, .members = {WorkerId{0}, WorkerId{7}}, .origin = origin};
        result.workers.push_back({WorkerId{worker}, {{1, {5ns, 9ns}, engine::TurnKind::step}}});
        return result;
    };
    for (const bool late_first : {false, true}) {
        Timeline all;
        add(all, late_first ? timeline(7, wall + 100ns) : timeline(0, wall));
        add(all, late_first ? timeline(0, wall) : timeline(7, wall + 100ns));
        add(all, timeline(7, wall + 1s));  // is there already
        EXPECT_EQ(all.origin, wall);
        ASSERT_EQ(all.workers.size(), 2U);
        EXPECT_EQ(all.workers[0].spans[0].when, (engine::Interval{5ns, 9ns}));
        EXPECT_EQ(all.workers[1].spans[0].when, (engine::Interval{105ns, 109ns}));
    }
}

TEST(MergedTimeline, LeavesOutAndNamesWhatIsMissingBrokenOrSomebodyElses) {
    const RecordedRun run{5};
    std::filesystem::remove(run.file("worker-00001.json"));
    std::filesystem::resize_file(run.file("worker-00002.json"), 1000);
    std::filesystem::copy_file(run.file("worker-00000.json"), run.file("worker-00003.json"),
                               std::filesystem::copy_options::overwrite_existing);
    const auto files = state::make_file_system();
    const Timelines all = read_timelines(*files, run.folder.path());
    ASSERT_EQ(all.timeline.workers.size(), 2U);
    EXPECT_EQ(all.timeline.workers[1].worker, WorkerId{4});
    EXPECT_THAT(all.left_out, ElementsAre("worker-00002.json (is no JSON, or breaks off)",
                                          "worker-00003.json (is another worker's)",
                                          "worker-00001.json (is missing)"));
    Lines lines;
    merge_timelines(*files, run.folder.path(), lines.log);
    EXPECT_EQ(lines.lines.size(), 3U);
    expect_trace(Json::parse(content_of(run.folder.path("timeline.json"))));
}

template <class Error>
std::string message_of(const std::string& folder) {
    try {
        static_cast<void>(read_timelines(*state::make_file_system(), folder));
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

TEST(MergedTimeline, OfNothingIsAnError) {
    const data::TempFolder folder;
    EXPECT_THAT(message_of<ConfigError>(folder.path()), HasSubstr("has no timeline"));
    EXPECT_THAT(message_of<ConfigError>("/nowhere"), HasSubstr("has no timeline"));
    std::filesystem::create_directory(folder.path("timeline"));
    EXPECT_THAT(message_of<ConfigError>(folder.path()), HasSubstr("has no timeline"));
    static_cast<void>(folder.write("timeline/worker-00000.json", "{"));
    EXPECT_THAT(message_of<DataError>(folder.path()), HasSubstr("worker-00000.json (is no JSON"));
    std::filesystem::resize_file(folder.path("timeline/worker-00000.json"), 1'000'000'000'000);
    EXPECT_THAT(message_of<DataError>(folder.path()), HasSubstr("larger than 256 MiB"));
}

TEST(ParsedTimeline, RefusesWhatItIsNot) {
    const RecordedRun run{2};
    const std::string good = content_of(run.file("worker-00001.json"));
    const auto damaged = [&](const std::string& from, const std::string& to) {
        std::string text = good;
        const std::size_t at = text.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        text.replace(at, from.size(), to);
        return std::holds_alternative<NoTimeline>(parse_timeline(text));
    };
    EXPECT_FALSE(damaged("\"ms\"", "\"ns\""));
    EXPECT_TRUE(damaged("\"version\":1", "\"version\":2"));
    EXPECT_TRUE(damaged("\"traceEvents\"", "\"events\""));
    EXPECT_TRUE(damaged("\"kind\":\"F\"", "\"kind\":\"Z\""));
    EXPECT_TRUE(damaged("\"kind\":\"F\"", "\"kind\":5"));
    EXPECT_TRUE(damaged("\"stage\":1", "\"stage\":-1"));
    EXPECT_TRUE(damaged("\"origin_ns\":", "\"origin_ns\":9000000000000000000,\"was\":"));
    EXPECT_TRUE(damaged("\"stage\":1", "\"stage\":1.5"));
    EXPECT_TRUE(damaged("\"stage\":1", "\"stage\":4294967296"));
    EXPECT_TRUE(damaged("\"stage\":1", "\"stage\":18446744073709551615"));
    EXPECT_TRUE(damaged("\"step\":1", "\"no\":1"));
    EXPECT_TRUE(damaged("\"ts\":", "\"ts\":-1,\"was\":"));
    EXPECT_TRUE(damaged("\"ts\":", "\"ts\":1e300,\"was\":"));
    EXPECT_TRUE(damaged("\"ts\":", "\"ts\":1e999,\"was\":"));
    EXPECT_FALSE(damaged("\"kind\":\"F\"", "\"kind\":\"F\",\"peer\":3"));  // and is dropped
    EXPECT_TRUE(damaged("\"dur\":", "\"dur\":[],\"was\":"));
    for (const std::size_t bytes : {std::size_t{1}, good.size() / 2, good.size() - 3}) {
        EXPECT_TRUE(std::holds_alternative<NoTimeline>(parse_timeline(good.substr(0, bytes))));
    }
    for (const std::string text :
         {"", "null", "[]", "{}", "{\"traceEvents\": [{}]}", "[[[[[[", "{\"otherData\": 3}"}) {
        EXPECT_TRUE(std::holds_alternative<NoTimeline>(parse_timeline(text))) << text;
    }
    EXPECT_TRUE(std::holds_alternative<NoTimeline>(parse_timeline(std::string(1 << 20, '['))));
}

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

TEST(WallOffset, LeadsFromAClockToTheTimeOfDay) {
    const SteadyClock clock;
    const auto wall_now = [] { return std::chrono::system_clock::now().time_since_epoch(); };
    const auto before = wall_now();
    const Nanoseconds there = clock.now() + wall_offset(clock);
    EXPECT_GE(there, before - 1s);
    EXPECT_LE(there, wall_now() + 1s);
}

}  // namespace
}  // namespace rhizome::cli
