// What must hold of every schedule that a generator and its passes make, whatever the shape.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "schedule/check.hpp"
#include "schedule/dry_run.hpp"
#include "schedule/generate.hpp"
#include "support/shapes.hpp"

namespace rhizome::tests {

/// The checker passes it, even where nothing is buffered; a clock runs it to its end; recomputation
/// and evaluation likewise.
inline void expect_right(schedule::Style style, const RunShape& shape, std::int32_t layers,
                         std::int32_t redundancy) {
    using namespace schedule;
    ASSERT_EQ(find_fault(shape, layers), std::nullopt);
    ASSERT_EQ(find_misfit(style, shape), std::nullopt);
    const LayerTable table = table_of(layers);
    const OwnershipMap owners = owners_in_turn(table, shape, redundancy);
    const Costs costs = equal_costs(layers);
    const bool evaluation = style == Style::evaluation;
    const Purpose purpose = evaluation ? Purpose::evaluation : Purpose::training;
    const Schedule schedule = full_step(style, shape, costs, table, owners);
    EXPECT_EQ(find_fault(schedule, purpose, table, owners, {.messages_max = 0}), std::nullopt);
    EXPECT_EQ(find_fault(schedule, purpose, table, owners, {}), std::nullopt);
    EXPECT_TRUE(dry_run(schedule, costs, {&table, &owners}).has_value());
    if (evaluation) return;
    const Schedule again =
        with_step_end(with_wires(with_recomputation(generate(style, shape)), costs), table, owners);
    EXPECT_EQ(find_fault(again, purpose, table, owners, {.messages_max = 0}), std::nullopt);
    EXPECT_TRUE(dry_run(again, costs, {&table, &owners}).has_value());
    // The rest of a step: every second lane, and everything, is there from before.
    for (const std::int32_t distance : {2, 1}) {
        std::vector<Lane> kept;
        for (std::int32_t l = distance - 1; l < shape.lanes.lanes; l += distance) {
            kept.emplace_back(l);
        }
        const Schedule rest =
            with_step_end(with_wires(generate(style, shape, kept), costs), table, owners);
        EXPECT_EQ(find_fault(rest, purpose, table, owners, {.messages_max = 0}), std::nullopt);
        EXPECT_TRUE(dry_run(rest, costs, {&table, &owners}).has_value());
        if (kept.empty()) continue;
        Schedule unkept = rest;
        unkept.kept.clear();
        EXPECT_NE(find_fault(unkept, purpose, table, owners, {}), std::nullopt);
        Schedule whole = schedule;
        whole.kept = kept;
        EXPECT_NE(find_fault(whole, purpose, table, owners, {}), std::nullopt);
    }
}

/// One pipeline of every depth and number of microbatches, with every number of lanes, or with one
/// drawn from `sample` where that is given.
inline void expect_lines_right(schedule::Style style, std::mt19937_64* sample) {
    const std::int32_t parts = style == schedule::Style::interleaved ? 2 : 1;
    for (std::int32_t workers = 1; workers <= 12; ++workers) {
        for (std::int32_t microbatches = 1; microbatches <= 32; ++microbatches) {
            if (sample != nullptr && (*sample)() % 8 != 0) continue;
            for (std::int32_t lanes = 1; lanes <= microbatches; ++lanes) {
                if (microbatches % lanes != 0) continue;
                if (sample != nullptr && (*sample)() % 2 != 0) continue;
                SCOPED_TRACE(std::string{name_of(style)} + ", " + std::to_string(workers) +
                             " workers, " + std::to_string(microbatches) + " microbatches, " +
                             std::to_string(lanes) + " lanes");
                expect_right(style, line_of(workers, parts, microbatches, lanes), workers * parts,
                             2);
                if (testing::Test::HasFailure()) return;
            }
        }
    }
}

/// Pipelines of uneven depth and lanes, with spares, and every redundancy.
inline void expect_random_shapes_right(schedule::Style style, std::uint64_t first_seed,
                                       std::uint64_t last_seed) {
    const std::int32_t parts = style == schedule::Style::interleaved ? 2 : 1;
    for (std::uint64_t seed = first_seed; seed < last_seed; ++seed) {
        SCOPED_TRACE(std::string{name_of(style)} + ", seed " + std::to_string(seed));
        std::mt19937_64 random{seed};
        const std::int32_t layers = 12;
        const RunShape shape = random_shape(random, layers, parts);
        expect_right(style, shape, layers, 1 + static_cast<std::int32_t>(random() % 4));
        if (testing::Test::HasFailure()) return;
    }
}

}  // namespace rhizome::tests
