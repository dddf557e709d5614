// The kill matrix on the world inside one process, with the real engine: every worker at every
// place of its work, in all layouts and in those of the layout test, and every pair and random
// triples of losses. CTest has a sample of it in the ordinary tests; this one leaves nothing out.
#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>

#include "support/kill_matrix.hpp"

namespace rhizome::tests {
namespace {

TEST(KillMatrix, EveryWorkerAtEveryPlaceInAllLayouts) {
    Matrix matrix{Saves::every_step};
    for (const Layout& layout : all_layouts()) {
        SCOPED_TRACE(layout.name());
        matrix.every_place(layout, 1);
        if (HasFailure()) return;
    }
    std::printf("%s\n", matrix.tally().text().c_str());
}

// In three tests, since they are long and may run beside each other.
TEST(KillMatrix, EveryPlaceInTheContractsLayoutsOneFOneB) {
    expect_calm_ends_of_contract(schedule::Style::one_f_one_b, 1);
}

TEST(KillMatrix, EveryPlaceInTheContractsLayoutsZeroBubbleH1) {
    expect_calm_ends_of_contract(schedule::Style::zero_bubble_h1, 1);
}

TEST(KillMatrix, EveryPlaceInTheContractsLayoutsZeroBubbleH2) {
    expect_calm_ends_of_contract(schedule::Style::zero_bubble_h2, 1);
}

TEST(KillMatrix, EveryPairOfPlaces) {
    Matrix matrix;
    for (const Layout& layout : small_layouts()) {
        SCOPED_TRACE(layout.name());
        matrix.pairs(layout, 1);
        if (HasFailure()) return;
    }
    std::printf("%s\n", matrix.tally().text().c_str());
}

TEST(KillMatrix, TenThousandTriples) {
    Matrix matrix;
    matrix.triples(10'000, 1);
    std::printf("%s\n", matrix.tally().text().c_str());
}

}  // namespace
}  // namespace rhizome::tests
