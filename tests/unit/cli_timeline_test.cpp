// Timelines of runs, as files and put together. JSON is read back by a reader that does not know
// how it was made.
#include "cli/timeline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "unit/cli_recorded_run.hpp"

namespace rhizome::cli {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Json = nlohmann::json;

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
        EXPECT_EQ(add(all, late_first ? timeline(7, wall + 100ns) : timeline(0, wall)),
                  Addition::done);
        EXPECT_EQ(add(all, late_first ? timeline(0, wall) : timeline(7, wall + 100ns)),
                  Addition::done);
        EXPECT_EQ(add(all, timeline(7, wall + 1s)), Addition::done);  // is there already
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

TEST(Timelines, OfClocksThatAreMonthsApartAreNotPutTogether) {
    const auto timeline = [](std::int32_t worker, Nanoseconds origin) {
        return Timeline{.steps = {1, 1},
                        .members = {WorkerId{worker}},
                        .origin = origin,
                        .workers = {{.worker = WorkerId{worker}}}};
    };
    Timeline all = timeline(0, 0s);
    EXPECT_EQ(add(all, timeline(1, timeline_time_max + 1ns)), Addition::too_far_apart);
    EXPECT_EQ(all, timeline(0, 0s));
    EXPECT_EQ(add(all, timeline(1, timeline_time_max)), Addition::done);
    EXPECT_EQ(all.workers.size(), 2);
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
    const std::string deep(1 << 20, '[');
    const std::string closed(1 << 20, ']');
    EXPECT_TRUE(std::holds_alternative<NoTimeline>(parse_timeline(deep)));
    EXPECT_TRUE(damaged("\"first_step\":", "\"first_step\":" + deep + closed + ",\"was\":"));
    EXPECT_TRUE(damaged("\"lanes\"", "\"no\""));
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
