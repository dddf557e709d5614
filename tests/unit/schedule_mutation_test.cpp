// The check against an executor that has nothing in common with it: whatever is done to a right
// schedule, the check finds a fault exactly when the execution goes wrong.
#include <gtest/gtest.h>

#include <functional>
#include <iostream>

#include "schedule/check.hpp"
#include "support/schedule_executor.hpp"

namespace rhizome::schedule {
namespace {

using namespace by_hand;

using Programs = std::vector<std::vector<Instruction>>;
using Visit = std::function<void(const Programs&)>;

std::string text_of(const Programs& programs) {
    std::string text;
    for (const auto& program : programs) {
        for (const Instruction& instruction : program) text += to_text(instruction) + " ";
        text += "\n";
    }
    return text;
}

auto at(std::vector<Instruction>& program, std::size_t place) {
    return program.begin() + static_cast<std::ptrdiff_t>(place);
}

/// Removed, put in another place, there twice.
void visit_places(const Programs& right, const Visit& visit) {
    for (std::size_t w = 0; w < right.size(); ++w) {
        for (std::size_t i = 0; i < right[w].size(); ++i) {
            Programs shorter = right;
            shorter[w].erase(at(shorter[w], i));
            visit(shorter);
            for (std::size_t to = 0; to <= shorter[w].size(); ++to) {
                Programs moved = shorter;
                moved[w].insert(at(moved[w], to), right[w][i]);
                if (to != i) visit(moved);
            }
            for (std::size_t to = 0; to <= right[w].size(); ++to) {
                Programs doubled = right;
                doubled[w].insert(at(doubled[w], to), right[w][i]);
                visit(doubled);
            }
            for (std::size_t other = i + 1; other < right[w].size(); ++other) {
                Programs swapped = right;
                std::swap(swapped[w][i], swapped[w][other]);
                if (swapped != right) visit(swapped);
            }
        }
    }
}

/// Everything but the kind and the peer set to every value that there is, and one more.
void visit_fields(const RunShape& shape, const Instruction& right,
                  const std::function<void(const Instruction&)>& visit) {
    std::int32_t stages = 0;
    for (const PipelineShape& pipeline : shape.pipelines) {
        stages = std::max(stages, static_cast<std::int32_t>(pipeline.stages.size()));
    }
    const auto visit_other = [&](const Instruction& changed) {
        if (changed != right) visit(changed);
    };
    Instruction changed = right;
    for (std::int32_t stage = 0; stage <= stages; ++stage) {
        changed.stage = StageId{stage};
        visit_other(changed);
    }
    changed = right;
    for (std::int32_t m = 0; m <= shape.lanes.microbatches; ++m) {
        changed.microbatch = Microbatch{m};
        visit_other(changed);
    }
    changed = right;
    for (std::int32_t first = 0; first <= shape.lanes.lanes; ++first) {
        for (std::int32_t last = 0; last <= shape.lanes.lanes + 1; ++last) {
            changed.lanes = {first, last};
            visit_other(changed);
        }
    }
}

/// One instruction differs in one thing.
void visit_changes(const Schedule& right, const Visit& visit) {
    Programs changed = right.programs;
    for (auto& program : changed) {
        for (Instruction& instruction : program) {
            const Instruction original = instruction;
            visit_fields(right.shape, original, [&](const Instruction& other) {
                instruction = other;
                visit(changed);
            });
            instruction = original;
            for (std::size_t peer = 0; peer <= right.shape.workers.size() + 1; ++peer) {
                instruction.peer.reset();
                if (peer > 0) instruction.peer = WorkerId{static_cast<std::int32_t>(peer - 1)};
                if (instruction != original) visit(changed);
            }
            instruction = original;
            for (std::uint8_t kind = 0; kind <= static_cast<std::uint8_t>(Kind::receive_parameters);
                 ++kind) {
                instruction.kind = static_cast<Kind>(kind);
                if (instruction != original) visit(changed);
            }
            instruction = original;
        }
    }
}

/// Both sides of a message removed, doubled, changed alike.
void visit_messages(const Schedule& right, const Visit& visit) {
    const RunShape& shape = right.shape;
    for (std::size_t from = 0; from < right.programs.size(); ++from) {
        for (std::size_t i = 0; i < right.programs[from].size(); ++i) {
            const Instruction sent = right.programs[from][i];
            if (!is_send(sent.kind) || !sent.peer) continue;
            const std::size_t to = shape.place_of(*sent.peer);
            const auto& receiver = right.programs[to];
            const Instruction received = counterpart(sent, shape.workers[from]);
            const auto j = static_cast<std::size_t>(
                std::find(receiver.begin(), receiver.end(), received) - receiver.begin());
            Programs changed = right.programs;
            changed[from].erase(at(changed[from], i));
            changed[to].erase(at(changed[to], j));
            visit(changed);
            changed = right.programs;
            changed[from].insert(at(changed[from], i), sent);
            changed[to].insert(at(changed[to], j), received);
            visit(changed);
            changed = right.programs;
            visit_fields(shape, sent, [&](const Instruction& other) {
                if (other.kind == Kind::send_gradient && other.stage == StageId{0}) return;
                changed[from][i] = other;
                changed[to][j] = counterpart(other, shape.workers[from]);
                visit(changed);
            });
        }
    }
}

/// A message that nobody asked for, at the begin, around the commit and at the end of both lists.
void visit_additions(const Schedule& right, const Visit& visit) {
    const auto places = [&](std::size_t w) {
        const auto& program = right.programs[w];
        std::set<std::size_t> found{0, program.size()};
        for (std::size_t i = 0; i < program.size(); ++i) {
            if (program[i].kind == Kind::commit) found.insert({i, i + 1});
        }
        return found;
    };
    const auto visit_message = [&](std::size_t from, std::size_t to, const Instruction& sent) {
        for (const std::size_t i : places(from)) {
            for (const std::size_t j : places(to)) {
                Programs longer = right.programs;
                longer[from].insert(at(longer[from], i), sent);
                longer[to].insert(at(longer[to], j), counterpart(sent, right.shape.workers[from]));
                visit(longer);
            }
        }
    };
    for (std::size_t from = 0; from < right.programs.size(); ++from) {
        for (std::size_t to = 0; to < right.programs.size(); ++to) {
            if (from == to) continue;
            for (const std::string word : {"SP", "SW", "SA0:0", "SA1:1", "SG1:0", "SG1:1",
                                           "SS0:0-0", "SS0:0-1", "SS1:0-0", "SS1:1-1"}) {
                const std::int32_t peer = right.shape.workers[to].value();
                visit_message(from, to, instruction_of(word + ">" + std::to_string(peer)));
            }
        }
    }
}

class ScheduleMutation : public testing::TestWithParam<ScheduleCase> {};

TEST_P(ScheduleMutation, IsFaultyExactlyWhenItsExecutionGoesWrong) {
    const ScheduleCase& what = GetParam();
    std::int64_t mutants = 0;
    std::int64_t right_mutants = 0;
    const auto judge = [&](const Programs& programs) {
        if (HasFailure()) return;  // one is enough
        const Schedule mutant{.shape = what.schedule.shape, .programs = programs};
        for (const std::optional<std::int32_t> messages_max :
             {std::optional<std::int32_t>{0}, std::optional<std::int32_t>{1},
              std::optional<std::int32_t>{}}) {
            ++mutants;
            const auto wrong = ScheduleExecutor{what, mutant, messages_max}.run();
            const auto fault =
                find_fault(mutant, what.purpose, what.table, what.owners, {messages_max});
            if (!wrong) ++right_mutants;
            ASSERT_EQ(fault.has_value(), wrong.has_value())
                << "executor: " << wrong.value_or("right")
                << "\ncheck: " << fault.value_or("no fault")
                << "\nmessages: " << messages_max.value_or(-1) << "\n"
                << text_of(programs);
        }
    };
    judge(what.schedule.programs);
    EXPECT_EQ(right_mutants, 3) << "the schedule itself";
    visit_places(what.schedule.programs, judge);
    visit_changes(what.schedule, judge);
    visit_messages(what.schedule, judge);
    visit_additions(what.schedule, judge);
    std::cout << mutants << " mutants, " << right_mutants << " of them right\n";
    EXPECT_GT(mutants, 1000);
    EXPECT_GT(right_mutants, 3);
    EXPECT_LT(right_mutants, mutants);
}

INSTANTIATE_TEST_SUITE_P(Cases, ScheduleMutation, testing::ValuesIn(all_schedule_cases()),
                         [](const auto& one) {
                             std::string name = one.param.name;
                             std::replace(name.begin(), name.end(), ' ', '_');
                             return name;
                         });

}  // namespace
}  // namespace rhizome::schedule
