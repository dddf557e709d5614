// The schedules here are written by hand or by a few lines of this file, and so are their times:
// the judge of a drawing is the eye, the golden files only keep what it has seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "schedule/draw.hpp"
#include "support/comment_drawing.hpp"

namespace rhizome::schedule {
namespace {

using testing::ExitedWithCode;
using testing::HasSubstr;
using testing::Not;

std::string golden(const std::string& file) {
    std::ifstream in{std::string{RHIZOME_TESTS} + "/golden/" + file};
    EXPECT_TRUE(in.is_open()) << file;
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

/// A schedule and its times.
struct Played {
    Schedule schedule;
    DryRun run;
};

Played nothing_by(const std::vector<std::int32_t>& workers) {
    Played played{{.shape = {.workers = {}, .lanes = {1, 1}, .pipelines = {}}, .programs = {}}, {}};
    for (const std::int32_t worker : workers) played.schedule.shape.workers.emplace_back(worker);
    played.schedule.programs.resize(workers.size());
    played.run.workers.resize(workers.size());
    return played;
}

void add(Played& played, std::size_t worker, const Instruction& instruction, Span span) {
    played.schedule.programs[worker].push_back(instruction);
    played.run.workers[worker].spans.push_back(span);
    played.run.makespan_s = std::max(played.run.makespan_s, span.end_s);
}

Instruction compute(Kind kind, std::int32_t stage, std::int32_t microbatch) {
    return {.kind = kind, .stage = StageId{stage}, .microbatch = Microbatch{microbatch}};
}

using Program = std::vector<Instruction>;

/// Computation in the order of the programs, each as soon as the neighbouring stage has done it.
Played played(const std::vector<std::int32_t>& workers, const std::vector<Program>& programs,
              std::int32_t stages, double forward_s, double backward_s) {
    Played played = nothing_by(workers);
    std::map<std::tuple<Kind, std::int32_t, std::int32_t>, double> ends;
    std::vector<double> free_at(workers.size(), 0.0);
    bool moved = true;
    while (moved) {
        moved = false;
        for (std::size_t w = 0; w < workers.size(); ++w) {
            const std::size_t next = played.schedule.programs[w].size();
            if (next == programs[w].size()) continue;
            const Instruction& each = programs[w][next];
            const bool forward = each.kind == Kind::forward;
            const std::int32_t stage = each.stage.value();
            const std::int32_t m = each.microbatch.value();
            double start = free_at[w];
            if (stage != (forward ? 0 : stages - 1)) {
                const auto before = ends.find({each.kind, forward ? stage - 1 : stage + 1, m});
                if (before == ends.end()) continue;
                start = std::max(start, before->second);
            }
            free_at[w] = start + (forward ? forward_s : backward_s);
            ends[{each.kind, stage, m}] = free_at[w];
            add(played, w, each, {start, free_at[w]});
            moved = true;
        }
    }
    for (std::size_t w = 0; w < workers.size(); ++w) {
        EXPECT_EQ(played.schedule.programs[w].size(), programs[w].size()) << "deadlock";
    }
    return played;
}

Played one_f_one_b(std::int32_t stages, std::int32_t microbatches, double forward_s,
                   double backward_s) {
    std::vector<std::int32_t> workers;
    std::vector<Program> programs;
    for (std::int32_t stage = 0; stage < stages; ++stage) {
        workers.push_back(stage);
        Program& program = programs.emplace_back();
        const std::int32_t warm_up = std::min(stages - 1 - stage, microbatches);
        for (std::int32_t turn = 0; turn < microbatches + warm_up; ++turn) {
            if (turn < microbatches) program.push_back(compute(Kind::forward, stage, turn));
            if (turn >= warm_up) program.push_back(compute(Kind::backward, stage, turn - warm_up));
        }
    }
    return played(workers, programs, stages, forward_s, backward_s);
}

TEST(Draw, MatchesTheDrawingOfOneForwardOneBackward) {
    const Played p = one_f_one_b(4, 4, 1, 1);
    EXPECT_EQ(draw(p.schedule, p.run, 1), golden("draw_1f1b.txt"));
}

TEST(Draw, IsTheOneOfTheHeader) {
    Played p = nothing_by({0});
    for (std::int32_t m = 0; m < 4; ++m) {
        add(p, 0, compute(Kind::forward, 0, m), {1.0 * m, 1.0 * m + 1});
    }
    add(p, 0, compute(Kind::backward, 0, 0), {6, 7});
    EXPECT_EQ(draw(p.schedule, p.run, 1),
              tests::comment_drawing(tests::read_source("schedule/draw.hpp"), "A line per worker"));
}

TEST(Draw, AlignsColumnsAndPutsStagesInFrontWhereAWorkerHasSeveral) {
    const auto f = [](std::int32_t stage, std::int32_t m) {
        return compute(Kind::forward, stage, m);
    };
    const auto b = [](std::int32_t stage, std::int32_t m) {
        return compute(Kind::backward, stage, m);
    };
    const Program first{f(0, 9), f(0, 10), f(2, 9), f(2, 10), b(2, 9), b(2, 10), b(0, 9), b(0, 10)};
    const Program second{f(1, 9),  f(1, 10), f(3, 9), b(3, 9),
                         f(3, 10), b(3, 10), b(1, 9), b(1, 10)};
    const Played p = played({2, 10, 11}, {first, second, {}}, 4, 1, 2);
    EXPECT_EQ(draw(p.schedule, p.run, 1), golden("draw_interleaved.txt"));
}

TEST(Draw, ShowsComputationOnly) {
    Played p = nothing_by({0, 1});
    add(p, 0, compute(Kind::recompute, 0, 0), {0, 1});
    add(p, 0, {.kind = Kind::send_activation, .peer = WorkerId{1}}, {1, 2});
    add(p, 0, compute(Kind::backward_input, 0, 0), {2, 3});
    add(p, 0, compute(Kind::backward_weight, 0, 0), {3, 4});
    add(p, 0, {.kind = Kind::commit}, {4, 6});
    add(p, 0, {.kind = Kind::update}, {6, 7});
    add(p, 1, {.kind = Kind::commit}, {0, 6});
    EXPECT_EQ(draw(p.schedule, p.run, 1), "worker 0 | R0 .. I0 W0\nworker 1 |\n");
}

TEST(Draw, RoundsToUnitsWithoutPushingAnythingOutOfPlace) {
    Played p = nothing_by({0});
    for (std::int32_t m = 0; m < 4; ++m) {
        add(p, 0, compute(Kind::forward, 0, m), {0.1 * m, 0.1 * (m + 1)});
    }
    EXPECT_EQ(draw(p.schedule, p.run, 0.1), "worker 0 | F0 F1 F2 F3\n");
    EXPECT_EQ(draw(p.schedule, p.run, 0.05), "worker 0 | F0 -- F1 -- F2 -- F3 --\n");
    EXPECT_EQ(draw(p.schedule, p.run, 0.16), "worker 0 | F0 F2\n");
    EXPECT_EQ(draw(p.schedule, p.run, 1000), "worker 0 |\n");
}

TEST(Draw, RefusesMoreColumnsThanAnybodyCouldRead) {
    const Played p = one_f_one_b(2, 2, 1, 1);
    EXPECT_THROW((void)draw(p.schedule, p.run, 1e-9), ConfigError);
    EXPECT_THROW((void)draw(p.schedule, p.run, 1e-320), ConfigError);
}

TEST(DrawDeathTest, WantsTheTimesOfThisSchedule) {
    Played p = one_f_one_b(2, 2, 1, 1);
    EXPECT_EXIT((void)draw(p.schedule, p.run, 0), ExitedWithCode(1), "broken promise");
    p.run.workers[1].spans.pop_back();
    EXPECT_EXIT((void)draw(p.schedule, p.run, 1), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT((void)draw_svg(p.schedule, p.run), ExitedWithCode(1), "broken promise");
    p.run.workers.pop_back();
    EXPECT_EXIT((void)draw(p.schedule, p.run, 1), ExitedWithCode(1), "broken promise");
    EXPECT_EXIT((void)draw_svg(p.schedule, p.run), ExitedWithCode(1), "broken promise");
}

int count_of(std::string_view part, std::string_view text) {
    int count = 0;
    for (std::size_t at = text.find(part); at != std::string_view::npos;
         at = text.find(part, at + 1)) {
        ++count;
    }
    return count;
}

/// Enough of a reader of XML for what draw_svg may write: elements that are closed in their order,
/// attributes in quotes, each once, and no characters that would have to be escaped.
void expect_xml(const std::string& xml) {
    std::vector<std::string> open;
    ASSERT_EQ(xml.find('&'), std::string::npos);
    ASSERT_EQ(count_of("<", xml), count_of(">", xml));
    std::size_t roots = 0;
    for (std::size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
        const std::size_t end = xml.find('>', at);
        std::string tag = xml.substr(at + 1, end - at - 1);
        ASSERT_EQ(tag.find('<'), std::string::npos) << tag;
        ASSERT_EQ(count_of("\"", tag) % 2, 0) << tag;
        if (tag.starts_with('/')) {
            ASSERT_FALSE(open.empty()) << tag;
            ASSERT_EQ(tag.substr(1), open.back());
            open.pop_back();
            continue;
        }
        if (open.empty()) ++roots;
        std::map<std::string, std::string> attributes;
        const std::size_t name_end = std::min(tag.find_first_of(" /"), tag.size());
        std::size_t next = tag.find_first_not_of(' ', name_end);
        while (next != std::string::npos && tag[next] != '/') {
            const std::size_t equals = tag.find("=\"", next);
            ASSERT_NE(equals, std::string::npos) << tag;
            const std::size_t close = tag.find('"', equals + 2);
            const auto [place, is_new] = attributes.emplace(
                tag.substr(next, equals - next), tag.substr(equals + 2, close - equals - 2));
            ASSERT_TRUE(is_new) << tag;
            next = tag.find_first_not_of(' ', close + 1);
        }
        if (!tag.ends_with('/')) open.push_back(tag.substr(0, name_end));
    }
    EXPECT_TRUE(open.empty());
    EXPECT_EQ(roots, 1U);
    EXPECT_TRUE(xml.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1200 "));
    EXPECT_EQ(count_of("http", xml), 1) << "no resources from elsewhere";
    EXPECT_EQ(count_of("nan", xml) + count_of("inf", xml), 0);
}

TEST(DrawSvg, HasABoxWithItsMicrobatchForEachComputation) {
    Played p = one_f_one_b(4, 8, 1, 2);
    p.run.bubble_share = 0.273;
    const std::string svg = draw_svg(p.schedule, p.run);
    expect_xml(svg);
    EXPECT_EQ(count_of("<rect class=\"F\"", svg), 4 * 8 + 1);  // and one of the legend
    EXPECT_EQ(count_of("<rect class=\"B\"", svg), 4 * 8 + 1);
    EXPECT_EQ(count_of("<rect class=\"bubble\"", svg), 4 + 1);
    EXPECT_EQ(count_of("<text class=\"middle\"", svg), 2 * 4 * 8);
    EXPECT_EQ(count_of(">7</text>", svg), 2 * 4);
    EXPECT_THAT(svg, HasSubstr("4 workers, 8 microbatches: makespan 33 s, bubble share 27.3 %"));
    EXPECT_THAT(svg, HasSubstr("<title>B0:7, 31 s to 33 s</title>"));
    EXPECT_THAT(svg, Not(HasSubstr(">weight part<")));
    EXPECT_THAT(svg, Not(HasSubstr(">gradient<")));
}

TEST(DrawSvg, ShowsTheMostActivationsOfEachWorker) {
    const Played p = one_f_one_b(4, 8, 1, 2);
    const std::string svg = draw_svg(p.schedule, p.run);
    const std::string memory = svg.substr(svg.find("Activations alive"));
    EXPECT_EQ(count_of("<path class=\"memory\"", memory), 4);
    for (const char* peak : {"4", "3", "2", "1"}) {
        EXPECT_EQ(count_of(std::string{">"} + peak + "</text>", memory), 1);
    }
}

TEST(DrawSvg, ShowsTransfersAndTheEndOfAStep) {
    Played p = nothing_by({0, 1});
    add(p, 0, compute(Kind::forward, 0, 0), {0, 1e-3});
    Instruction send = compute(Kind::send_activation, 0, 0);
    send.peer = WorkerId{1};
    add(p, 0, send, {1e-3, 2e-3});
    add(p, 1, counterpart(send, WorkerId{0}), {0, 0});
    add(p, 1, compute(Kind::forward, 1, 0), {2e-3, 3e-3});
    add(p, 1, {.kind = Kind::send_parts, .peer = WorkerId{0}}, {3e-3, 4e-3});
    add(p, 0, {.kind = Kind::receive_parts, .peer = WorkerId{1}}, {1e-3, 4e-3});
    for (std::size_t w = 0; w < 2; ++w) {
        add(p, w, {.kind = Kind::commit}, {4e-3, 5e-3});
        add(p, w, {.kind = Kind::update}, {5e-3, 6e-3});
    }
    const std::string svg = draw_svg(p.schedule, p.run);
    expect_xml(svg);
    for (const char* css : {"activation", "ending"}) {
        // One path with all lines, one for the legend.
        EXPECT_EQ(count_of(std::string{"<path class=\""} + css + "\"", svg), 2) << css;
    }
    EXPECT_EQ(count_of("<path class=\"gradient\"", svg), 0);
    for (const char* css : {"commit", "update"}) {
        EXPECT_EQ(count_of(std::string{"<path class=\""} + css + "\"", svg), 3) << css;
    }
    EXPECT_THAT(svg, HasSubstr("makespan 6 ms"));
    EXPECT_THAT(svg, HasSubstr("time in ms"));
    EXPECT_THAT(svg, Not(HasSubstr("Activations alive"))) << "nothing waits for a backward";
}

TEST(DrawSvg, DrawsNothingAsNothing) {
    const Played nobody = nothing_by({});
    expect_xml(draw_svg(nobody.schedule, nobody.run));
    const Played idle = nothing_by({0, 7});
    const std::string svg = draw_svg(idle.schedule, idle.run);
    expect_xml(svg);
    EXPECT_THAT(svg, HasSubstr("worker 7"));
    Played at_once = nothing_by({0});
    add(at_once, 0, compute(Kind::forward, 0, 0), {0, 0});
    expect_xml(draw_svg(at_once.schedule, at_once.run));
}

TEST(DrawSvg, LeavesOutASendToNobody) {
    Played p = nothing_by({0});
    add(p, 0, {.kind = Kind::send_parts}, {0, 1});
    add(p, 0, {.kind = Kind::send_parts, .peer = WorkerId{5}}, {1, 2});
    const std::string svg = draw_svg(p.schedule, p.run);
    expect_xml(svg);
    EXPECT_EQ(count_of("<path class=\"ending\"", svg), 0);
}

TEST(DrawSvg, SurvivesTimesOfEverySize) {
    for (const double second : {1e-300, 1e-9, 1e-3, 0.7, 1.0, 1e6, 1e250}) {
        const Played p = one_f_one_b(3, 5, second, 2 * second);
        expect_xml(draw_svg(p.schedule, p.run));
    }
}

TEST(DrawSvg, StaysSmallForALargeSchedule) {
    const Played p = one_f_one_b(64, 512, 1, 2);
    const std::string svg = draw_svg(p.schedule, p.run);
    expect_xml(svg);
    EXPECT_LT(svg.size(), 2'000'000U);
}

}  // namespace
}  // namespace rhizome::schedule
