// What a list of instructions needs before it can run: memory for its microbatches, and messages
// that both ends call by one name.
#include "engine/program.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "schedule/generate.hpp"
#include "support/schedule_cases.hpp"
#include "support/shapes.hpp"

namespace rhizome::engine {
namespace {

using schedule::Kind;
using schedule::Schedule;
using schedule::Style;
using schedule::by_hand::schedule_of;

/// "slots/work areas" by stage.
std::string counts_text(const Program& program) {
    std::string text;
    for (const auto& [stage, counts] : program.counts) {
        text += (text.empty() ? "" : " ") + std::to_string(stage.value()) + ":" +
                std::to_string(counts.slots) + "/" + std::to_string(counts.work_areas);
    }
    return text;
}

/// Each instruction with what happens to memory: [ opens a slot, ( a work area, ) and ] close them,
/// > and < hand on.
std::string memory_text(const Program& program) {
    std::string text;
    for (const Operation& each : program.operations) {
        const MemoryUse& use = each.memory;
        text += (text.empty() ? "" : " ");
        text += use.opens_slot ? "[" : "";
        text += use.opens_work_area ? "(" : "";
        text += to_text(each.what).substr(0, to_text(each.what).find_first_of("<>"));
        text += use.hands_on_activation ? ">" : "";
        text += use.hands_on_gradient ? "<" : "";
        text += use.closes_work_area ? ")" : "";
        text += use.closes_slot ? "]" : "";
    }
    return text;
}

/// All on worker 0, a layer per stage.
RunShape stages_of_one(std::int32_t stages, std::int32_t microbatches) {
    return tests::line_of(1, stages, microbatches, 1);
}

Program alone(std::int32_t stages, std::int32_t microbatches, const std::string& words) {
    return compile(schedule_of(stages_of_one(stages, microbatches), {words}), WorkerId{0}, 0);
}

std::string counts_of_line(Style style, std::int32_t workers, std::int32_t microbatches) {
    const RunShape shape = tests::line_of(workers, 1, microbatches, 1);
    const Schedule schedule = generate(style, shape);
    std::string text;
    for (const WorkerId worker : shape.workers) {
        text += (text.empty() ? "" : " ") + counts_text(compile(schedule, worker, 0));
    }
    return text;
}

TEST(MemoryUse, LastsFromForwardToTheLastOfBackward) {
    EXPECT_EQ(memory_text(alone(1, 2, "F0:0 F0:1 B0:0 I0:1 W0:1")),
              "[(F0:0 [(F0:1 B0:0)] I0:1 W0:1)]");
}

TEST(MemoryUse, OfAWorkAreaEndsWithAForwardThatIsRepeated) {
    EXPECT_EQ(memory_text(alone(1, 2, "F0:0 F0:1 R0:0 B0:0 R0:1 I0:1 W0:1")),
              "[(F0:0) [(F0:1) (R0:0 B0:0)] (R0:1 I0:1 W0:1)]");
}

TEST(MemoryUse, EndsWithTheForwardOfAnEvaluation) {
    EXPECT_EQ(memory_text(alone(1, 2, "F0:1 F0:0")), "[(F0:1)] [(F0:0)]");
}

TEST(MemoryUse, OfASlotLastsFromTheFirstMessageToTheLast) {
    const Schedule schedule = schedule::by_hand::case_two_stages().schedule;
    EXPECT_EQ(memory_text(compile(schedule, WorkerId{0}, 0)),
              "[(F0:0 SA0:0 [(F0:1 SA0:1 RG0:0 B0:0)] RG0:1 B0:1)] RS1:0-0 SP RP C U SW");
    EXPECT_EQ(memory_text(compile(schedule, WorkerId{1}, 0)),
              "[RA1:0 (F1:0 B1:0) [RA1:1 SG1:0] (F1:1 B1:1) SG1:1] SS1:0-0 RP SP C U RW");
}

TEST(MemoryUse, IsHandedOnBetweenStagesOfOneWorker) {
    EXPECT_EQ(memory_text(alone(3, 1, "F0:0 F1:0 F2:0 B2:0 I1:0 I0:0 W0:0 W1:0")),
              "[(F0:0> (F1:0> (F2:0 B2:0<)] I1:0< I0:0 W0:0)] W1:0)]");
}

TEST(MemoryUse, IsNotHandedOnToAnotherWorker) {
    const Schedule schedule = schedule::by_hand::case_there_and_back().schedule;
    EXPECT_EQ(memory_text(compile(schedule, WorkerId{1}, 0)).substr(0, 57),
              "[RA1:0 (F1:0> (F2:0 SA2:0 [RA1:1 (F1:1> (F2:1 SA2:1 RG2:0");
    EXPECT_EQ(memory_text(compile(schedule, WorkerId{0}, 0)).find('<'), std::string::npos);
    EXPECT_EQ(memory_text(compile(schedule, WorkerId{0}, 0)).find('>'), std::string::npos);
}

TEST(Counts, OfGpipeAreAllMicrobatches) {
    EXPECT_EQ(counts_of_line(Style::gpipe, 3, 5), "0:5/5 1:5/5 2:5/5");
}

TEST(Counts, OfOneForwardOneBackwardAreTheStagesFromHereToTheEnd) {
    EXPECT_EQ(counts_of_line(Style::one_f_one_b, 4, 9), "0:4/4 1:3/3 2:2/2 3:1/1");
    EXPECT_EQ(counts_of_line(Style::one_f_one_b, 4, 3), "0:3/3 1:3/3 2:2/2 3:1/1");
}

TEST(Counts, OfAnEvaluationAreOne) {
    EXPECT_EQ(counts_of_line(Style::evaluation, 3, 7), "0:1/1 1:1/1 2:1/1");
}

TEST(Counts, OfWorkAreasAreOneWhereAllIsRecomputed) {
    const RunShape shape = tests::line_of(3, 1, 8, 1);
    for (const Style style : {Style::gpipe, Style::one_f_one_b}) {
        const Schedule schedule = with_recomputation(generate(style, shape));
        const std::int32_t most = style == Style::gpipe ? 8 : 3;
        EXPECT_EQ(counts_text(compile(schedule, WorkerId{0}, 0)),
                  "0:" + std::to_string(most) + "/1");
    }
}

TEST(Counts, HaveOneSlotMoreWhereMessagesLeaveFrom) {
    const Schedule schedule = schedule::by_hand::case_two_stages().schedule;
    EXPECT_EQ(counts_text(compile(schedule, WorkerId{0}, 0)), "0:3/2");
    EXPECT_EQ(counts_text(compile(schedule, WorkerId{1}, 0)), "1:3/1");
}

TEST(Counts, OfStagesOfOneWorkerBeginWithTheHandOver) {
    EXPECT_EQ(counts_text(alone(2, 2, "F0:0 F0:1 F1:0 F1:1 B1:0 B0:0 B1:1 B0:1")), "0:2/2 1:2/2");
    EXPECT_EQ(counts_text(alone(2, 2, "F0:0 F0:1 F1:0 B1:0 F1:1 B1:1 B0:0 B0:1")), "0:2/2 1:2/1");
    EXPECT_EQ(counts_text(alone(2, 2, "F0:0 F1:0 B1:0 B0:0 F0:1 F1:1 B1:1 B0:1")), "0:1/1 1:1/1");
}

TEST(Counts, AreThoseOfTheWorkersOwnStages) {
    const Schedule schedule = schedule::by_hand::case_with_owner_and_spare().schedule;
    EXPECT_EQ(counts_text(compile(schedule, WorkerId{0}, 0)), "0:2/2");
    EXPECT_EQ(counts_text(compile(schedule, WorkerId{1}, 0)), "");
    EXPECT_EQ(counts_text(compile(schedule, WorkerId{2}, 0)), "");
}

// --- tags ---

Schedule random_schedule(std::mt19937_64& random) {
    const std::int32_t layers = 6;
    const std::vector<Style>& styles = schedule::all_styles();
    const Style style = styles[random() % styles.size()];
    const std::int32_t parts = style == Style::interleaved ? 2 : 1;
    const RunShape shape = tests::random_shape(random, layers, parts);
    const LayerTable table = tests::table_of(layers);
    const auto owners = tests::owners_in_turn(table, shape, 1 + static_cast<int>(random() % 3));
    return full_step(style, shape, schedule::equal_costs(layers), table, owners);
}

TEST(Tags, AreTheSameAtBothEndsAndNoneComesTwiceInADirection) {
    constexpr std::int32_t first_tag = 1000;
    std::mt19937_64 random{5};
    int messages = 0;
    for (int i = 0; i < 60; ++i) {
        SCOPED_TRACE(i);
        const Schedule schedule = random_schedule(random);
        std::vector<Program> programs;
        for (const WorkerId worker : schedule.shape.workers) {
            programs.push_back(compile(schedule, worker, first_tag));
        }
        std::map<std::pair<WorkerId, WorkerId>, std::set<world::Tag>> tags;
        for (std::size_t w = 0; w < programs.size(); ++w) {
            const WorkerId self = schedule.shape.workers[w];
            for (const Operation& send : programs[w].operations) {
                if (!is_send(send.what.kind)) continue;
                ++messages;
                EXPECT_GE(send.tag.value(), first_tag);
                const WorkerId peer = send.what.peer.value();
                const bool is_new = tags[{self, peer}].insert(send.tag).second;
                EXPECT_TRUE(is_new);
                const auto& others = programs[schedule.shape.place_of(peer)].operations;
                const auto receive =
                    std::find_if(others.begin(), others.end(), [&](const Operation& each) {
                        return each.what == counterpart(send.what, self);
                    });
                ASSERT_NE(receive, others.end());
                EXPECT_EQ(receive->tag, send.tag) << to_text(send.what);
            }
        }
        for (const auto& [direction, all] : tags) {
            EXPECT_EQ(all.rbegin()->value() - first_tag + 1, static_cast<int>(all.size()));
        }
    }
    EXPECT_GT(messages, 1000);
}

}  // namespace
}  // namespace rhizome::engine
