#include "schedule/check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/schedule_cases.hpp"

namespace rhizome::schedule {
namespace {

using namespace by_hand;

using testing::HasSubstr;

constexpr Buffering meeting{.messages_max = 0};
constexpr Buffering unlimited{};

std::string find_fault_in(const ScheduleCase& one, Buffering buffering = meeting) {
    return find_fault(one.schedule, one.purpose, one.table, one.owners, buffering)
        .value_or("no fault");
}

/// The same with words of one list replaced.
ScheduleCase edited(ScheduleCase one, std::size_t worker, const std::string& from,
                    const std::string& to) {
    std::string text = " ";
    for (const Instruction& i : one.schedule.programs[worker]) text += to_text(i) + " ";
    const std::size_t place = text.find(" " + from + " ");
    EXPECT_NE(place, std::string::npos) << from << " in " << text;
    text.replace(place + 1, from.size(), to);
    one.schedule.programs[worker] = program_of(text);
    return one;
}

std::string fault_after(const ScheduleCase& one, std::size_t worker, const std::string& from,
                        const std::string& to) {
    return find_fault_in(edited(one, worker, from, to));
}

TEST(Check, FindsNothingWrongWithRightSchedules) {
    for (const ScheduleCase& one : all_schedule_cases()) {
        EXPECT_EQ(find_fault_in(one), "no fault") << one.name;
        EXPECT_EQ(find_fault_in(one, {.messages_max = 1}), "no fault") << one.name;
        EXPECT_EQ(find_fault_in(one, {.messages_max = 7}), "no fault") << one.name;
        EXPECT_EQ(find_fault_in(one, unlimited), "no fault") << one.name;
    }
}

TEST(Check, EveryStageComputesEveryMicrobatchOnceInEachDirection) {
    EXPECT_EQ(fault_after(case_alone(), 0, "F0:1", "F0:1 F0:1"),
              "worker 0, instruction 4 (F0:1): it is done a second time");
    EXPECT_EQ(fault_after(case_alone(), 0, "B0:0", "B0:0 B0:0"),
              "worker 0, instruction 3 (B0:0): it is done a second time");
    EXPECT_EQ(fault_after(case_alone(), 0, "W0:1", "W0:1 W0:1"),
              "worker 0, instruction 6 (W0:1): it is done a second time");
    EXPECT_EQ(fault_after(case_alone(), 0, "I0:1", "B0:1"),
              "worker 0, instruction 5 (W0:1): it is done a second time");
    EXPECT_EQ(fault_after(case_alone(), 0, "W0:1", ""),
              "worker 0, instruction 5 (C): the step is not complete (no W0:1 before it)");
    EXPECT_EQ(fault_after(case_alone(), 0, "F0:1 I0:1 W0:1", ""),
              "worker 0, instruction 3 (C): the step is not complete (no F0:1 before it)");
    EXPECT_EQ(fault_after(case_evaluation(), 0, "F0:1 F0:0", "F0:0"),
              "worker 0, instruction 1 (SP>1): its parts are not complete (no F0:1 before it)");
}

TEST(Check, AStageIsComputedByItsOwnWorkerOnly) {
    EXPECT_EQ(fault_after(case_two_stages(), 0, "F0:1", "F1:1"),
              "worker 0, instruction 2 (F1:1): worker 0 does not compute stage 1");
    EXPECT_EQ(fault_after(case_two_stages(), 0, "F0:1", "F7:1"),
              "worker 0, instruction 2 (F7:1): worker 0 does not compute stage 7");
    EXPECT_EQ(fault_after(case_with_owner_and_spare(), 2, "RP<0", "F0:0 RP<0"),
              "worker 2, instruction 0 (F0:0): worker 2 computes no stage");
    EXPECT_EQ(fault_after(case_two_pipelines(), 1, "F0:1", "F0:0"),
              "worker 1, instruction 1 (F0:0): its pipeline has microbatches 1 to 2");
}

TEST(Check, WhatAnInstructionConsumesComesBeforeIt) {
    EXPECT_EQ(fault_after(case_two_stages(), 1, "RA1:0<0 F1:0", "F1:0 RA1:0<0"),
              "worker 1, instruction 0 (F1:0): its activation has not come (no RA1:0<0 before it)");
    EXPECT_EQ(fault_after(case_two_stages(), 0, "RG0:0<1 B0:0", "B0:0 RG0:0<1"),
              "worker 0, instruction 4 (B0:0): its gradient has not come (no RG0:0<1 before it)");
    EXPECT_EQ(fault_after(case_there_and_back(), 1, "F1:0 F2:0", "F2:0 F1:0"),
              "worker 1, instruction 1 (F2:0): its activation has not been made "
              "(no F1:0 before it)");
    EXPECT_EQ(fault_after(case_there_and_back(), 1, "B2:0 B1:0", "B1:0 B2:0"),
              "worker 1, instruction 9 (B1:0): its gradient has not been made "
              "(no B2:0 or I2:0 before it)");
    EXPECT_EQ(fault_after(case_alone(), 0, "F0:0 R0:0 B0:0", "B0:0 R0:0 F0:0"),
              "worker 0, instruction 0 (B0:0): its forward has not been done (no F0:0 before it)");
    EXPECT_EQ(fault_after(case_alone(), 0, "I0:1 W0:1", "W0:1 I0:1"),
              "worker 0, instruction 4 (W0:1): its input part has not been done "
              "(no I0:1 before it)");
}

TEST(Check, ARecomputeStandsOnceBetweenForwardAndBackward) {
    EXPECT_EQ(fault_after(case_alone(), 0, "R0:0 B0:0", "B0:0"), "no fault");
    EXPECT_EQ(fault_after(case_alone(), 0, "F0:0 R0:0", "R0:0 F0:0"),
              "worker 0, instruction 0 (R0:0): its forward has not been done (no F0:0 before it)");
    EXPECT_EQ(fault_after(case_alone(), 0, "R0:0 B0:0", "B0:0 R0:0"),
              "worker 0, instruction 2 (R0:0): it is too late (after its backward)");
    EXPECT_EQ(fault_after(case_alone(), 0, "R0:0", "R0:0 R0:0"),
              "worker 0, instruction 2 (R0:0): it is done a second time");
}

TEST(Check, WeightGradientsOfALaneAreAddedInAscendingOrder) {
    EXPECT_EQ(fault_after(case_alone(), 0, "B0:0 F0:1 I0:1 W0:1", "F0:1 I0:1 W0:1 B0:0"),
              "worker 0, instruction 4 (W0:1): its weight gradients come too early "
              "(those of microbatch 0 are next in lane 0)");
    // Only the weight parts count, and only within one lane.
    EXPECT_EQ(fault_after(case_alone(), 0, "B0:0 F0:1 I0:1 W0:1", "F0:1 I0:1 B0:0 W0:1"),
              "no fault");
    EXPECT_EQ(fault_after(case_split_backward(), 1, "W1:1 W1:0", "W1:0 W1:1"), "no fault");
}

TEST(Check, AWireIsSentOnceAfterItWasMade) {
    EXPECT_EQ(fault_after(case_two_stages(), 0, "F0:0 SA0:0>1", "SA0:0>1 F0:0"),
              "worker 0, instruction 0 (SA0:0>1): its activation has not been made "
              "(no F0:0 before it)");
    EXPECT_EQ(fault_after(case_two_stages(), 1, "B1:1 SG1:1>0", "SG1:1>0 B1:1"),
              "worker 1, instruction 6 (SG1:1>0): its gradient has not been made "
              "(no B1:1 or I1:1 before it)");
    EXPECT_EQ(fault_after(case_two_stages(), 0, "SA0:1>1", "SA0:1>1 SA0:0>1"),
              "worker 0, instruction 4 (SA0:0>1): it is sent twice");
    EXPECT_EQ(fault_after(case_two_stages(), 1, "RA1:1<0", "RA1:1<0 RA1:0<0"),
              "worker 1, instruction 4 (RA1:0<0): it is received twice");
    EXPECT_EQ(fault_after(case_two_stages(), 0, "SA0:1>1", ""),
              "worker 0, instruction 10 (C): the step is not complete (no SA0:1>1 before it)");
    EXPECT_EQ(fault_after(case_two_stages(), 1, "SG1:1>0", ""),
              "worker 1, instruction 10 (C): the step is not complete (no SG1:1>0 before it)");
}

TEST(Check, AWireGoesBetweenNeighboursOnDifferentWorkers) {
    EXPECT_EQ(fault_after(case_two_stages(), 0, "SA0:0>1", "SG0:0>1"),
              "worker 0, instruction 1 (SG0:0>1): it is of the first stage");
    EXPECT_EQ(fault_after(case_two_stages(), 1, "SG1:0>0", "RG1:0<0"),
              "worker 1, instruction 4 (RG1:0<0): it is of the last stage");
    EXPECT_EQ(fault_after(case_there_and_back(), 1, "F1:0", "F1:0 SA1:0>0"),
              "worker 1, instruction 2 (SA1:0>0): stage 2 is on the same worker "
              "(nothing is sent)");
    EXPECT_EQ(fault_after(case_two_pipelines(), 1, "SA0:1>2", "SA0:1>0"),
              "worker 1, instruction 2 (SA0:1>0): stage 1 is on worker 2");
}

TEST(Check, AnOwnerGetsEachSumOnceAndWhole) {
    const ScheduleCase two = case_two_stages();
    EXPECT_EQ(fault_after(two, 1, "F1:1 B1:1 SG1:1>0 SS1:0-0>0", "SS1:0-0>0 F1:1 B1:1 SG1:1>0"),
              "worker 1, instruction 5 (SS1:0-0>0): its sum is not complete "
              "(microbatch 1 is not in it)");
    EXPECT_EQ(fault_after(two, 1, "SS1:0-0>0", ""),
              "worker 1, instruction 10 (C): the step is not complete (no SS1:0-0>0 before it)");
    EXPECT_EQ(fault_after(two, 0, "RS1:0-0<1 SP>1", "SP>1"),
              "worker 0, instruction 8 (SP>1): its parts are not complete "
              "(no RS1:0-0<1 before it)");
    EXPECT_EQ(fault_after(two, 1, "SS1:0-0>0", "SS1:0-0>0 SS1:0-0>0"),
              "worker 1, instruction 9 (SS1:0-0>0): it is sent twice");
    const ScheduleCase pipelines = case_two_pipelines();
    EXPECT_EQ(fault_after(pipelines, 1, "SS0:1-1>0 SS0:2-2>0", "SS0:1-2>0"),
              "worker 1, instruction 9 (SS0:1-2>0): these lanes are no complete subtree "
              "of its pipeline");
    EXPECT_EQ(fault_after(pipelines, 2, "SP>0", "SS1:1-1>0 SP>0"),
              "worker 2, instruction 13 (SS1:1-1>0): worker 0 owns no chunk of this stage");
    EXPECT_EQ(fault_after(pipelines, 0, "RS0:1-1<1", "RS1:1-1<1"),
              "worker 0, instruction 4 (RS1:1-1<1): worker 1 does not compute stage 1");
}

TEST(Check, EverybodyGetsAllPartsOnce) {
    const ScheduleCase spare = case_with_owner_and_spare();
    EXPECT_EQ(fault_after(spare, 2, "RP<0", ""),
              "worker 2, instruction 1 (C): the step is not complete (no RP<0 before it)");
    EXPECT_EQ(fault_after(spare, 0, "SP>2", ""),
              "worker 0, instruction 7 (C): the step is not complete (no SP>2 before it)");
    EXPECT_EQ(fault_after(spare, 2, "RP<0", "RP<0 RP<0"),
              "worker 2, instruction 1 (RP<0): it is received twice");
    EXPECT_EQ(fault_after(spare, 2, "C", "SP>0 C"),
              "worker 2, instruction 2 (SP>0): this worker has no parts");
    EXPECT_EQ(fault_after(spare, 1, "C", "RP<2 C"),
              "worker 1, instruction 4 (RP<2): worker 2 has no parts");
    EXPECT_EQ(fault_after(spare, 0, "B0:1 SS0:0-1>1 SP>1", "SP>1 B0:1 SS0:0-1>1"),
              "worker 0, instruction 3 (SP>1): its parts are not complete (no B0:1 before it)");
    EXPECT_EQ(fault_after(case_evaluation(), 1, "RP<2", ""), "worker 1 ends without RP<2");
    EXPECT_EQ(fault_after(case_evaluation(), 2, "SP>3", ""), "worker 2 ends without SP>3");
}

TEST(Check, EveryWorkerCommitsOnceAfterTheWholeStep) {
    EXPECT_EQ(fault_after(case_with_owner_and_spare(), 2, "C", ""), "worker 2 never commits");
    EXPECT_EQ(fault_after(case_alone(), 0, "C", "C C"),
              "worker 0, instruction 7 (C): it is the second");
    EXPECT_EQ(fault_after(case_with_owner_and_spare(), 2, "RP<1 C", "C RP<1"),
              "worker 2, instruction 1 (C): the step is not complete (no RP<1 before it)");
}

TEST(Check, EveryOwnerUpdatesOnceAfterItsCommit) {
    EXPECT_EQ(fault_after(case_alone(), 0, "C U", "U C"),
              "worker 0, instruction 6 (U): it comes before the commit");
    EXPECT_EQ(fault_after(case_alone(), 0, "U", "U U"),
              "worker 0, instruction 8 (U): it is the second");
    EXPECT_EQ(fault_after(case_alone(), 0, "U", ""), "worker 0 never updates (it owns chunks)");
    EXPECT_EQ(fault_after(case_with_owner_and_spare(), 2, "C", "C U"),
              "worker 2, instruction 3 (U): this worker owns no chunk");
}

TEST(Check, NewParametersReachEachHolderOnceFromTheFirstOwner) {
    const ScheduleCase two = case_two_stages();
    EXPECT_EQ(fault_after(two, 0, "U SW>1", "SW>1 U"),
              "worker 0, instruction 12 (SW>1): it comes before the update");
    EXPECT_EQ(fault_after(two, 1, "C U RW<0", "RW<0 C U"),
              "worker 1, instruction 11 (RW<0): it comes before the commit");
    EXPECT_EQ(fault_after(two, 0, "SW>1", ""), "worker 0 ends without SW>1");
    EXPECT_EQ(fault_after(two, 1, "RW<0", ""), "worker 1 ends without RW<0");
    EXPECT_EQ(fault_after(two, 0, "SW>1", "SW>1 SW>1"),
              "worker 0, instruction 14 (SW>1): it is sent twice");
    EXPECT_EQ(fault_after(two, 1, "U", "U SW>0"),
              "worker 1, instruction 13 (SW>0): the receiver needs no parameters "
              "from the sender");
    EXPECT_EQ(fault_after(two, 1, "U RW<0", "RW<0 U"), "no fault");
}

TEST(Check, AnEvaluationOnlyGoesForward) {
    for (const std::string word : {"B0:0", "I0:0", "W0:0", "R0:0", "SG0:0>1", "RG0:0<1",
                                   "SS0:0-0>1", "RS0:0-0<1", "C", "U", "SW>1", "RW<1"}) {
        EXPECT_EQ(fault_after(case_evaluation(), 0, "F0:0", "F0:0 " + word),
                  "worker 0, instruction 2 (" + word + "): an evaluation has none of these");
    }
}

TEST(Check, NothingIsComputedForLanesThatAreKept) {
    ScheduleCase one = case_alone();
    one.schedule.kept = {Lane{0}};
    EXPECT_THAT(find_fault_in(one), HasSubstr("its lane is kept (nothing is computed for it)"));
    one.schedule.kept = {Lane{one.schedule.shape.lanes.lanes}};
    EXPECT_THAT(find_fault_in(one), HasSubstr("the lanes kept are not some of the step's"));
    one.schedule.kept = {Lane{0}, Lane{0}};
    EXPECT_THAT(find_fault_in(one), HasSubstr("each once, ascending"));
    one = case_evaluation();
    one.schedule.kept = {Lane{0}};
    EXPECT_EQ(find_fault_in(one), "an evaluation keeps no lanes");
}

/// Both sides meet twice, in opposite order.
ScheduleCase crossing() {
    ScheduleCase one = case_two_stages();
    one = edited(one, 0, "SP>1 RP<1", "RP<1 SP>1");
    return edited(one, 1, "RP<0 SP>0", "RP<0 SP>0");
}

TEST(Check, ListsThatWaitForEachOtherAreFound) {
    EXPECT_EQ(find_fault_in(crossing()),
              "worker 0, instruction 9 (RP<1): it waits for ever (for worker 1, instruction 9 "
              "(RP<0), who waits for worker 0)");
    EXPECT_THAT(find_fault_in(crossing(), unlimited), HasSubstr("waits for ever"));
}

TEST(Check, BufferingDecidesWhetherTwoMaySendAtTheSameTime) {
    const ScheduleCase both_send = edited(case_two_stages(), 1, "RP<0 SP>0", "SP>0 RP<0");
    EXPECT_EQ(find_fault_in(both_send),
              "worker 0, instruction 9 (SP>1): it waits for ever (for worker 1, instruction 9 "
              "(SP>0), who waits for worker 0)");
    EXPECT_EQ(find_fault_in(both_send, {.messages_max = 1}), "no fault");

    // Two activations are under way before the first is received, the second of them first.
    const ScheduleCase overtaken =
        edited(case_two_stages(), 1, "RA1:0<0 F1:0 B1:0 RA1:1<0", "RA1:1<0 RA1:0<0 F1:0 B1:0");
    EXPECT_THAT(find_fault_in(overtaken), HasSubstr("waits for ever"));
    EXPECT_EQ(find_fault_in(overtaken, {.messages_max = 1}),
              "worker 0, instruction 3 (SA0:1>1): it waits for ever (for worker 1, instruction 0 "
              "(RA1:1<0), who waits for worker 0)");
    EXPECT_EQ(find_fault_in(overtaken, {.messages_max = 2}), "no fault");
}

/// With one instruction of worker 0 changed.
template <class Change>
std::string fault_with(std::size_t place, Change change) {
    ScheduleCase one = case_two_stages();
    change(one.schedule.programs[0][place]);
    return find_fault_in(one);
}

TEST(Check, AnInstructionHasTheFieldsOfItsKind) {
    EXPECT_EQ(fault_with(1, [](Instruction& i) { i.peer.reset(); }),
              "worker 0, instruction 1 (SA0:0): it has no peer");
    EXPECT_EQ(fault_with(1, [](Instruction& i) { i.peer = WorkerId{0}; }),
              "worker 0, instruction 1 (SA0:0>0): its peer is the worker itself");
    EXPECT_EQ(fault_with(1, [](Instruction& i) { i.peer = WorkerId{9}; }),
              "worker 0, instruction 1 (SA0:0>9): there is no worker 9");
    EXPECT_THAT(fault_with(0, [](Instruction& i) { i.peer = WorkerId{1}; }),
                HasSubstr("it has a peer, but nothing is sent"));
    EXPECT_THAT(fault_with(0, [](Instruction& i) { i.lanes = {0, 1}; }),
                HasSubstr("which its kind does not use"));
    EXPECT_THAT(fault_with(8, [](Instruction& i) { i.microbatch = Microbatch{1}; }),
                HasSubstr("which its kind does not use"));
    EXPECT_THAT(fault_with(9, [](Instruction& i) { i.stage = StageId{1}; }),
                HasSubstr("which its kind does not use"));
    EXPECT_EQ(fault_with(0, [](Instruction& i) { i.kind = static_cast<Kind>(200); }),
              "worker 0, instruction 0: its kind is unknown");
    EXPECT_THAT(fault_with(8, [](Instruction& i) { i.lanes = {-7, INT32_MAX}; }),
                HasSubstr("no complete subtree"));
    EXPECT_THAT(fault_with(0, [](Instruction& i) { i.microbatch = Microbatch{INT32_MAX}; }),
                HasSubstr("its pipeline has microbatches 0 to 1"));
}

template <class Change>
std::string fault_of_inputs(Change change) {
    ScheduleCase one = case_two_stages();
    change(one);
    return find_fault_in(one);
}

TEST(Check, NothingIsTakenForGranted) {
    using Case = ScheduleCase;
    EXPECT_EQ(fault_of_inputs([](Case& one) { one.schedule.programs.pop_back(); }),
              "there are 1 lists (for 2 workers)");
    EXPECT_EQ(fault_of_inputs([](Case& one) { one.schedule.shape.pipelines.clear(); }),
              "there is no pipeline");
    EXPECT_EQ(fault_of_inputs([](Case& one) { one.schedule.shape.lanes.lanes = 0; }),
              "2 microbatches make no 0 lanes of equal length");
    EXPECT_EQ(fault_of_inputs([](Case& one) { one.schedule.shape.lanes.microbatches = INT32_MAX; }),
              "there are 28 instructions (at least 4294967298 are needed)");
    EXPECT_EQ(fault_of_inputs([](Case& one) { one.table.chunk_elements = 0; }),
              "the table's chunks have no elements");
    EXPECT_EQ(fault_of_inputs([](Case& one) {
                  one.table.layers[1].parameters[1].tied_to = TensorRef{LayerId{8}, 0};
              }),
              "layer1/again is tied to a tensor that is not owned");
    EXPECT_EQ(fault_of_inputs([](Case& one) { one.owners.chunks[1].owners.clear(); }),
              "chunk 0 of layer1/own has no owner");
    EXPECT_EQ(fault_of_inputs([](Case& one) { one.owners.chunks[1].owners[0] = WorkerId{5}; }),
              "chunk 0 of layer1/own is owned by worker 5 (who is not there)");
    EXPECT_EQ(fault_of_inputs([](Case& one) { one.owners.chunks[1].owners.emplace_back(1); }),
              "chunk 0 of layer1/own is owned by worker 1 twice");
    EXPECT_EQ(fault_of_inputs([](Case& one) { one.owners.chunks.pop_back(); }),
              "chunk 0 of layer1/own is not where it belongs in the map of owners");
    EXPECT_EQ(fault_of_inputs([](Case& one) { one.owners.chunks.push_back(one.owners.chunks[0]); }),
              "the map of owners has 3 chunks (the network has 2)");
    EXPECT_EQ(find_fault_in(case_alone(), {.messages_max = -1}),
              "fewer than no messages are buffered");
}

/// GPipe on that many workers, each the owner of its own stage.
ScheduleCase case_large(std::int32_t workers, std::int32_t microbatches) {
    LayerTable table = table_of({});
    PipelineSketch pipeline{.lanes = {0, 1}, .stages = {}};
    std::vector<std::vector<std::int32_t>> owners;
    std::vector<std::int32_t> senders;
    for (std::int32_t worker = 0; worker < workers; ++worker) {
        table.layers.push_back(table_of({{1}}).layers[0]);
        pipeline.stages.push_back({worker, worker, worker + 1});
        owners.push_back({worker});
        senders.push_back(worker);
    }
    Story story{shape_of(workers, {microbatches, 1}, {pipeline})};
    const auto add = [&](Kind kind, std::int32_t stage, std::int32_t microbatch,
                         std::int32_t peer) {
        Instruction i{.kind = kind, .stage = StageId{stage}, .microbatch = Microbatch{microbatch}};
        if (is_send(kind)) i.peer = WorkerId{peer};
        story.does(stage, i);
    };
    for (std::int32_t m = 0; m < microbatches; ++m) {
        for (std::int32_t s = 0; s < workers; ++s) {
            add(Kind::forward, s, m, s);
            if (s + 1 < workers) add(Kind::send_activation, s, m, s + 1);
        }
    }
    for (std::int32_t m = 0; m < microbatches; ++m) {
        for (std::int32_t s = workers - 1; s >= 0; --s) {
            add(Kind::backward, s, m, s);
            if (s > 0) add(Kind::send_gradient, s, m, s - 1);
        }
    }
    story.parts(senders).all_do("C U");
    return {"large", Purpose::training, table, owners_of(table, owners), story.schedule()};
}

TEST(Check, LargeSchedulesAreNoTrouble) {
    ScheduleCase large = case_large(64, 512);
    for (const Buffering buffering : {meeting, Buffering{.messages_max = 3}, unlimited}) {
        EXPECT_EQ(find_fault_in(large, buffering), "no fault");
    }
    auto& last = large.schedule.programs.back();
    std::swap(last[last.size() - 1], last[last.size() - 2]);
    EXPECT_THAT(find_fault_in(large), HasSubstr("(U): it comes before the commit"));
}

}  // namespace
}  // namespace rhizome::schedule
