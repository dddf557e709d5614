#include "schedule/dry_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "schedule/generate.hpp"
#include "support/shapes.hpp"

namespace rhizome::schedule {
namespace {

using tests::line_of;

Instruction at(Kind kind, std::int32_t stage, std::int32_t microbatch) {
    return {.kind = kind, .stage = StageId{stage}, .microbatch = Microbatch{microbatch}};
}

/// Two stages, one microbatch, by hand.
Schedule two_by_one() {
    return with_wires(generate(Style::one_f_one_b, line_of(2, 1, 1, 1)), equal_costs(2));
}

TEST(DryRun, TimesAHandCheckedSchedule) {
    Costs costs = equal_costs(2);
    costs.layers[1] = {2.0, 3.0, 4.0};
    costs.layers[0].wire_bytes = 10;
    costs.link_latency_s = 0.5;
    costs.link_bytes_per_s = 20;  // so a message takes one second
    const auto run = dry_run(two_by_one(), costs);
    ASSERT_TRUE(run);
    // F0 0-1, wire 1-2, F1 2-4, B1 4-11, wire 11-12, B0 12-14
    EXPECT_EQ(run->makespan_s, 14);
    EXPECT_EQ(run->workers[0].busy_s, 3);
    EXPECT_EQ(run->workers[1].busy_s, 9);
    EXPECT_DOUBLE_EQ(run->bubble_share, 1 - 12.0 / 28);
}

TEST(DryRun, FindsWhatDecidesTheTime) {
    const auto run = dry_run(two_by_one(), equal_costs(2));
    ASSERT_TRUE(run);
    // F0, its message, F1, B1, its message, B0; receives decide nothing.
    const Schedule schedule = two_by_one();
    std::vector<std::string> path;
    for (const Place& place : run->critical_path) {
        path.push_back(to_text(schedule.programs[place.worker][place.place]));
    }
    EXPECT_EQ(path.front(), "F0:0");
    EXPECT_EQ(path.back(), "B0:0");
    EXPECT_THAT(path, testing::Not(testing::Contains(testing::StartsWith("R"))));
}

TEST(DryRun, MessagesOfOneDirectionFollowOneAnother) {
    Costs costs = equal_costs(2);
    costs.layers[0].wire_bytes = 50;
    costs.link_bytes_per_s = 10;  // five seconds a message, one second a microbatch
    const Schedule schedule = with_wires(generate(Style::evaluation, line_of(2, 1, 4, 1)), costs);
    const auto run = dry_run(schedule, costs);
    ASSERT_TRUE(run);
    EXPECT_EQ(run->makespan_s, 1 + 4 * 5 + 1);
}

TEST(DryRun, NoticesDeadlocksAndMissingMessages) {
    Schedule backwards = two_by_one();
    auto& program = backwards.programs[1];
    std::swap(program[1], program[2]);  // the backward before its forward
    EXPECT_EQ(dry_run(backwards, equal_costs(2)), std::nullopt);

    Schedule lacking = two_by_one();
    std::erase_if(lacking.programs[0],
                  [](const Instruction& each) { return each.kind == Kind::send_activation; });
    EXPECT_EQ(dry_run(lacking, equal_costs(2)), std::nullopt);
}

TEST(DryRun, ACommitWaitsForEverybody) {
    RunShape shape = line_of(2, 1, 2, 2);
    const LayerTable table = tests::table_of(2);
    const OwnershipMap owners = tests::owners_in_turn(table, shape, 2);
    Costs costs = equal_costs(2);
    costs.agreement_s = 0.25;
    const Schedule schedule = full_step(Style::one_f_one_b, shape, costs, table, owners);
    const auto run = dry_run(schedule, costs, {&table, &owners});
    ASSERT_TRUE(run);
    for (std::size_t w = 0; w < 2; ++w) {
        for (std::size_t i = 0; i < schedule.programs[w].size(); ++i) {
            if (schedule.programs[w][i].kind != Kind::commit) continue;
            EXPECT_EQ(run->workers[w].spans[i].end_s, 9.25);  // 3 (M + S - 1) and the agreement
        }
    }
    EXPECT_EQ(run->makespan_s, 9.25);
}

TEST(DryRun, CountsTheBytesThatActivationsTake) {
    Costs costs = equal_costs(1);
    costs.layers[0].wire_bytes = 1;
    costs.layers[0].saved_bytes = 10;
    costs.layers[0].deferred_bytes = 100;
    const RunShape shape = line_of(1, 1, 3, 1);
    const auto kept = dry_run(generate(Style::gpipe, shape), costs);
    ASSERT_TRUE(kept);
    EXPECT_EQ(kept->workers[0].peak_activations, 3);
    EXPECT_EQ(kept->workers[0].peak_bytes, 3 * 10 + 100);
    const auto again = dry_run(with_recomputation(generate(Style::gpipe, shape)), costs);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->workers[0].peak_bytes, 10 + 100);
    EXPECT_EQ(again->makespan_s, kept->makespan_s + 3);
}

TEST(DryRun, KeepsOnlyInputWiresForLayersThatAreRepeated) {
    Costs costs = equal_costs(4);
    for (LayerCost& layer : costs.layers) {
        layer.wire_bytes = 1;
        layer.saved_bytes = 10;
    }
    RunShape shape = line_of(2, 1, 3, 1);
    shape.pipelines[0].stages[0].layers = {0, 2};
    shape.pipelines[0].stages[1].layers = {2, 4};
    const Schedule bare = generate(Style::gpipe, shape);
    const auto kept = dry_run_computation(bare, costs);
    const auto again = dry_run_computation(with_recomputation(bare), costs);
    ASSERT_TRUE(kept && again);
    EXPECT_EQ(kept->workers[0].peak_bytes, 3 * (1 + 20));      // no input, one inner wire
    EXPECT_EQ(kept->workers[1].peak_bytes, 3 * (1 + 1 + 20));  // an input as well
    EXPECT_EQ(again->workers[0].peak_bytes, 1 + 20);
    EXPECT_EQ(again->workers[1].peak_bytes, 3 * 1 + 1 + 20);
}

TEST(DryRun, EndsAscendOnTheCriticalPathUpToTheMakespan) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random{seed};
        const RunShape shape = tests::random_shape(random, 6, 1);
        const LayerTable table = tests::table_of(6);
        const OwnershipMap owners = tests::owners_in_turn(table, shape, 2);
        Costs costs = equal_costs(6);
        costs.link_latency_s = static_cast<double>(random() % 5);
        costs.link_bytes_per_s = 20;
        costs.agreement_s = static_cast<double>(random() % 3);
        for (LayerCost& layer : costs.layers) {
            layer.forward_s = 1.0 + static_cast<double>(random() % 4);
            layer.wire_bytes = static_cast<std::int64_t>(random() % 100);
        }
        const Schedule schedule = full_step(Style::zero_bubble_h1, shape, costs, table, owners);
        const auto run = dry_run(schedule, costs, {&table, &owners});
        ASSERT_TRUE(run);
        double before = 0;
        for (const Place& place : run->critical_path) {
            const Span& span = run->workers[place.worker].spans[place.place];
            EXPECT_GE(span.end_s, before);
            before = span.end_s;
        }
        EXPECT_EQ(before, run->makespan_s);
        const Place& first = run->critical_path.front();
        EXPECT_EQ(run->workers[first.worker].spans[first.place].start_s, 0);
    }
}

TEST(DryRun, PartsWaitForTheSumsThatTheyAreMadeOf) {
    const RunShape shape = line_of(2, 1, 1, 1);
    const LayerTable table = tests::table_of(2);
    const OwnershipMap owners = tests::owners_in_turn(table, shape, 1);
    Costs costs = equal_costs(2);
    costs.link_latency_s = 10;
    const Schedule schedule = full_step(Style::one_f_one_b, shape, costs, table, owners);
    const auto run = dry_run(schedule, costs, {&table, &owners});
    ASSERT_TRUE(run);
    // F 1, wire 10, F 1, B 2, wire 10, B 2, a sum 10, parts 10, parameters 10.
    EXPECT_EQ(run->makespan_s, 1 + 10 + 1 + 2 + 10 + 2 + 10 + 10 + 10);
}

TEST(Instructions, HaveCounterparts) {
    const Instruction send{.kind = Kind::send_activation,
                           .stage = StageId{2},
                           .microbatch = Microbatch{5},
                           .peer = WorkerId{7}};
    const Instruction receive = counterpart(send, WorkerId{4});
    EXPECT_EQ(to_text(send), "SA2:5>7");
    EXPECT_EQ(to_text(receive), "RA3:5<4");
    EXPECT_EQ(counterpart(receive, WorkerId{7}), send);
    const Instruction gradient{.kind = Kind::send_gradient,
                               .stage = StageId{3},
                               .microbatch = Microbatch{5},
                               .peer = WorkerId{4}};
    EXPECT_EQ(to_text(counterpart(gradient, WorkerId{7})), "RG2:5<7");
    const Instruction sum{
        .kind = Kind::send_sum, .stage = StageId{1}, .lanes = {0, 4}, .peer = WorkerId{0}};
    EXPECT_EQ(to_text(counterpart(sum, WorkerId{9})), "RS1:0-3<9");
    EXPECT_EQ(to_text(at(Kind::backward_weight, 1, 3)), "W1:3");
    EXPECT_EQ(to_text(Instruction{.kind = Kind::commit}), "C");
}

}  // namespace
}  // namespace rhizome::schedule
