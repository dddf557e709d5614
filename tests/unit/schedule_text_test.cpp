#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "schedule/draw.hpp"
#include "support/comment_drawing.hpp"

namespace rhizome::schedule {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;

void expect_same(const Schedule& a, const Schedule& b) {
    EXPECT_EQ(a.shape.workers, b.shape.workers);
    EXPECT_EQ(a.shape.lanes.microbatches, b.shape.lanes.microbatches);
    EXPECT_EQ(a.shape.lanes.lanes, b.shape.lanes.lanes);
    EXPECT_EQ(a.shape.pipelines, b.shape.pipelines);
    EXPECT_EQ(a.programs, b.programs);
    EXPECT_EQ(a.kept, b.kept);
}

std::string error_of(const std::string& text) {
    try {
        (void)parse_schedule(text);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "no error";
}

/// Two workers, one stage each, every kind of instruction.
const std::string example =
    "rhizome schedule 1\n"
    "microbatches 4 lanes 2\n"
    "workers 0 12\n"
    "pipeline lanes 0-1 : 0@0-2 12@3-5\n"
    "worker 0 : F0:0 SA0:0>12 R0:0 RG0:0<12 I0:0 W0:0 RS1:0-1<12 RP<12 C U SW>12\n"
    "worker 12 : RA1:0<0 F1:0 B1:0 SG1:0>0 SS1:0-1>0 SP>0 C RW<0\n";

TEST(ScheduleText, ReadsEveryKindOfInstruction) {
    const Schedule schedule = parse_schedule(example);
    EXPECT_EQ(schedule.shape.workers, (std::vector<WorkerId>{WorkerId{0}, WorkerId{12}}));
    EXPECT_EQ(schedule.shape.lanes.microbatches, 4);
    EXPECT_EQ(schedule.shape.lanes.lanes, 2);
    ASSERT_EQ(schedule.shape.pipelines.size(), 1U);
    EXPECT_EQ(schedule.shape.pipelines[0].lanes, (LaneRange{0, 2}));
    EXPECT_EQ(schedule.shape.pipelines[0].stages,
              (std::vector<StageShape>{{WorkerId{0}, {0, 3}}, {WorkerId{12}, {3, 6}}}));
    ASSERT_EQ(schedule.programs.size(), 2U);
    ASSERT_EQ(schedule.programs[0].size(), 11U);
    EXPECT_EQ(schedule.programs[0][1], (Instruction{.kind = Kind::send_activation,
                                                    .stage = StageId{0},
                                                    .microbatch = Microbatch{0},
                                                    .peer = WorkerId{12}}));
    EXPECT_EQ(schedule.programs[0][6], (Instruction{.kind = Kind::receive_sum,
                                                    .stage = StageId{1},
                                                    .lanes = {0, 2},
                                                    .peer = WorkerId{12}}));
    EXPECT_EQ(schedule.programs[1][6], (Instruction{.kind = Kind::commit}));
}

TEST(ScheduleText, WritesWhatItRead) { EXPECT_EQ(to_text(parse_schedule(example)), example); }

TEST(ScheduleText, NamesLanesThatAreKept) {
    std::string text = example;
    text.insert(text.find("pipeline"), "kept 0 1\n");
    const Schedule schedule = parse_schedule(text);
    EXPECT_EQ(schedule.kept, (std::vector<Lane>{Lane{0}, Lane{1}}));
    EXPECT_EQ(to_text(schedule), text);
    text.replace(text.find("kept 0 1"), 8, "kept 0 x");
    EXPECT_THAT(error_of(text), HasSubstr("line 4: `x` (no whole number)"));
}

TEST(ScheduleText, ReadsTheExampleOfItsSource) {
    const std::string text =
        tests::comment_drawing(tests::read_source("schedule/text.cpp"), "A schedule as text.");
    const Schedule schedule = parse_schedule(text);
    EXPECT_EQ(schedule.programs.size(), 2U);
    expect_same(parse_schedule(to_text(schedule)), schedule);
}

TEST(ScheduleText, PassesOverCommentsBlanksAndEmptyLines) {
    EXPECT_EQ(to_text(parse_schedule("# a schedule\r\n\r\n  rhizome\tschedule  1 # version\r\n"
                                     "microbatches 1 lanes 1\r\n\n"
                                     "workers 3\r\n"
                                     "worker 3 : F0:0#B0:0\n# the end")),
              "rhizome schedule 1\nmicrobatches 1 lanes 1\nworkers 3\nworker 3 : F0:0\n");
}

TEST(ScheduleText, KeepsASpareWorkerAndAStepWithoutWorkers) {
    const std::string spare =
        "rhizome schedule 1\nmicrobatches 1 lanes 1\nworkers 3 4\n"
        "pipeline lanes 0-0 : 3@0-0\nworker 3 : F0:0\nworker 4 :\n";
    EXPECT_EQ(to_text(parse_schedule(spare)), spare);
    const std::string nobody = "rhizome schedule 1\nmicrobatches 1 lanes 1\nworkers\n";
    EXPECT_EQ(to_text(parse_schedule(nobody)), nobody);
}

/// Values at random, small and large; nothing has to fit anything else.
class Disorder {
  public:
    explicit Disorder(std::uint64_t seed) : random_{seed} {}

    std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_()) % limit; }

    std::int32_t number() {
        return static_cast<std::int32_t>(below(4) == 0 ? below(2147483647) : below(9));
    }

    template <class Range>
    Range range() {
        return {number() - 4, number()};
    }

    Instruction instruction() {
        Instruction each{.kind = static_cast<Kind>(below(17))};
        const bool has_microbatch = is_compute(each.kind) || is_wire(each.kind);
        if (has_microbatch || is_sum(each.kind)) each.stage = StageId{number()};
        if (has_microbatch) each.microbatch = Microbatch{number()};
        if (is_sum(each.kind)) each.lanes = range<LaneRange>();
        if (below(2) == 0) each.peer = WorkerId{number()};
        return each;
    }

    Schedule schedule() {
        const std::int32_t lanes = 1 + number() / 1000;
        Schedule schedule{.shape = {.workers = {}, .lanes = {3 * lanes, lanes}, .pipelines = {}},
                          .programs = {}};
        for (std::size_t count = below(4); count > 0; --count) {
            schedule.shape.workers.emplace_back(number());
            schedule.programs.emplace_back();
            for (std::size_t i = below(20); i > 0; --i) {
                schedule.programs.back().push_back(instruction());
            }
        }
        for (std::size_t count = below(3); count > 0; --count) {
            schedule.shape.pipelines.push_back({{}, range<LaneRange>()});
            for (std::size_t i = below(4); i > 0; --i) {
                schedule.shape.pipelines.back().stages.push_back(
                    {WorkerId{number()}, range<LayerRange>()});
            }
        }
        return schedule;
    }

    /// A few characters changed, put in, left out or copied from elsewhere.
    std::string change(std::string text) {
        static const std::string likely = "0123456789:-<>@# \n\tFBWSARGPCUIx";
        for (std::size_t times = 1 + below(3); times > 0; --times) {
            const std::size_t at = below(text.size() + 1);
            const char c =
                below(8) == 0 ? static_cast<char>(below(256)) : likely[below(likely.size())];
            const std::size_t how = below(4);
            if (how == 0) text.insert(at, 1, c);
            if (how == 1) text.erase(at, 1 + below(5));
            if (how == 2 && at < text.size()) text[at] = c;
            if (how == 3) text.insert(at, text.substr(below(text.size() + 1), 1 + below(20)));
        }
        return text;
    }

  private:
    std::mt19937_64 random_;
};

TEST(ScheduleText, ReadsBackEverySchedule) {
    for (std::uint64_t seed = 0; seed < 2000; ++seed) {
        SCOPED_TRACE(seed);
        const Schedule schedule = Disorder{seed}.schedule();
        expect_same(parse_schedule(to_text(schedule)), schedule);
        if (HasFailure()) return;
    }
}

TEST(ScheduleText, IsReadOrRefusedWithALineWhateverItSays) {
    int read = 0;
    int refused = 0;
    for (std::uint64_t seed = 0; seed < 8000; ++seed) {
        SCOPED_TRACE(seed);
        const std::string text = Disorder{seed}.change(example);
        try {
            const std::string again = to_text(parse_schedule(text));
            ASSERT_EQ(to_text(parse_schedule(again)), again);
            ++read;
        } catch (const ConfigError& error) {
            ASSERT_THAT(error.what(), MatchesRegex("schedule, line [0-9]+: .+ \\(.+\\), .+"))
                << text;
            ++refused;
        }
    }
    EXPECT_GT(read, 200);
    EXPECT_GT(refused, 500);
}

TEST(ScheduleText, IsRefusedWhereverItEndsTooEarly) {
    const std::size_t programs = example.find("worker 12 :") + std::string{"worker 12 :"}.size();
    const std::size_t nobody = example.find("workers") + std::string{"workers"}.size();
    for (std::size_t size = 0; size < programs; ++size) {
        if (size == nobody || size == nobody + 1) continue;  // a step without workers is whole
        EXPECT_THAT(error_of(example.substr(0, size)), HasSubstr("schedule, line ")) << size;
    }
}

TEST(ScheduleText, NamesLineWordReasonAndWayOut) {
    EXPECT_EQ(error_of(""),
              "schedule, line 1: the end (where `rhizome` is due), "
              "write `rhizome` there");
    EXPECT_EQ(error_of("rhizome schedule 2\n"),
              "schedule, line 1: `2` (no version that this program knows), write version 1");
    EXPECT_EQ(error_of("rhizome schedule 1\n\nmicrobatches 8 lanes 3\n"),
              "schedule, line 3: `3` (does not divide the 8 microbatches), "
              "take a divisor of a positive number");
    const std::string head = "rhizome schedule 1\nmicrobatches 8 lanes 4\nworkers 0 1\n";
    EXPECT_EQ(error_of(head + "worker 0 : F0:0 X0:1\n"),
              "schedule, line 4: `X0:1` (no instruction), "
              "write it like F0:7, SA0:7>1, SS0:0-3>1 or C");
    EXPECT_EQ(
        error_of(head + "worker 1 :\n"),
        "schedule, line 4: `1` (where worker 0 is due), keep the order of the line `workers`");
    EXPECT_EQ(error_of(head + "worker 0 :\nworker 1 :\nworker 2 :\n"),
              "schedule, line 6: `worker` (every worker has its line already), "
              "end the text before it");
    EXPECT_EQ(error_of(head + "pipeline lanes 0 : 0@0-2\n"),
              "schedule, line 4: `0` (no lanes), write the first and the last one, as 0-3");
    EXPECT_EQ(error_of(head + "pipeline lanes 0-3 : 0@0:2\n"),
              "schedule, line 4: `0@0:2` (no stage), "
              "write worker@first layer-last layer, as 0@0-2");
}

TEST(ScheduleText, RefusesNumbersThatDoNotFit) {
    const auto with = [](const std::string& microbatches, const std::string& workers,
                         const std::string& word) {
        return error_of("rhizome schedule 1\nmicrobatches " + microbatches + " lanes 1\nworkers " +
                        workers + "\nworker 0 : " + word + "\n");
    };
    EXPECT_EQ(with("2147483647", "0", "F2147483647:2147483647"), "no error");
    EXPECT_EQ(with("4", "0", "RS0:-3--2147483648<0"), "no error");
    for (const char* number :
         {"2147483648", "99999999999999999999", "-1", "+1", "1.0", "1e3", "", "0x1"}) {
        EXPECT_THAT(with(number, "0", "C"), HasSubstr("schedule, line 2: ")) << number;
        EXPECT_THAT(with("4", "0", std::string{"F"} + number + ":0"), HasSubstr("no instruction"));
        EXPECT_THAT(with("4", "0", std::string{"SP>"} + number), HasSubstr("no instruction"));
    }
    EXPECT_THAT(with("0", "0", "C"), HasSubstr("positive number"));
    EXPECT_THAT(with("4", "-1", "C"), HasSubstr("no whole number"));
    EXPECT_THAT(with("4", "0", "RS0:0-2147483647<0"), HasSubstr("no instruction"));
}

TEST(ScheduleText, RefusesWordsThatAreAlmostRight) {
    for (const char* word : {"F",        "F0",     "F0:",  "F:0",    "F0:0:0", "F0:0-1",  "f0:0",
                             "SS0:0>1",  "SS0:0-", "C0:0", "C:",     "SP<1",   "RP>1",    "SA0:0>",
                             "SA0:0><1", "FB0:0",  "SA",   "F0:0>1", "F0 :0",  "RG0:0<1,"}) {
        EXPECT_THAT(error_of("rhizome schedule 1\nmicrobatches 1 lanes 1\nworkers 0\nworker 0 : " +
                             std::string{word}),
                    AllOf(HasSubstr("line 4: "), HasSubstr("no instruction")))
            << word;
    }
}

TEST(ScheduleText, ShowsTheBeginningOfALongWordAndNoControlCharacters) {
    EXPECT_EQ(error_of(std::string(1000, 'x')), "schedule, line 1: `" + std::string(40, 'x') +
                                                    "...` (where `rhizome` is due), "
                                                    "write `rhizome` there");
    EXPECT_THAT(error_of("\x1b[2J"), HasSubstr("`\\x1b[2J`"));
}

}  // namespace
}  // namespace rhizome::schedule
