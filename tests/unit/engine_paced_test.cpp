// The engine in time: on a paced device and a virtual clock a step takes what the dry run of its
// schedule says. So the engine adds no wait of its own: transfers run beside computations, and a
// receive holds up nobody but who needs it.
#include <algorithm>

#include <gtest/gtest.h>

#include "support/paced_run.hpp"
#include "world/fake_world.hpp"

namespace rhizome::tests {
namespace {

SmallOptions eight_layers(LaneShape lanes) {
    return {.dropout = 0.0, .dtype = DType::f32, .rows = 1, .lanes = lanes, .blocks = 5};
}

/// The slowest worker's second step over the dry run's.
double ratio(const SmallOptions& options, const Arrangement& arrangement, std::int32_t workers,
             const Accelerator& accelerator = {}) {
    std::vector<double> seconds(static_cast<std::size_t>(workers));
    const Nanoseconds latency{static_cast<std::int64_t>(accelerator.link_latency_s * 1e9)};
    const auto outcomes = world::run_fake_world(
        {.workers = workers,
         .seed = 1,
         .latency_min = latency,
         .latency_max = latency,
         .bytes_per_s = accelerator.link_bytes_per_s},
        [&](world::World& world) {
            seconds[world.self().index()] =
                paced_steps(world, options, arrangement, accelerator, 3).at(1);
        });
    for (const auto& outcome : outcomes) {
        if (outcome.error) std::rethrow_exception(outcome.error);
    }
    const double expected = dry_run_of(options, arrangement, accelerator, workers).makespan_s;
    return *std::max_element(seconds.begin(), seconds.end()) / expected;
}

class Styles : public testing::TestWithParam<schedule::Style> {};

TEST_P(Styles, OfEightStagesTakeTheTimeOfTheirDryRun) {
    const double found =
        ratio(eight_layers({16, 4}), {.depths = {8}, .style = GetParam(), .owners = 2}, 8);
    EXPECT_GT(found, 0.99);
    EXPECT_LT(found, 1.03);
}
INSTANTIATE_TEST_SUITE_P(All, Styles,
                         testing::Values(schedule::Style::gpipe, schedule::Style::one_f_one_b,
                                         schedule::Style::zero_bubble_h1,
                                         schedule::Style::zero_bubble_h2));

TEST(Paced, TwoInterleavedPipelinesTakeTheTimeOfTheirDryRun) {
    const double found =
        ratio(eight_layers({16, 4}),
              {.depths = {4, 4}, .parts = 2, .style = schedule::Style::interleaved}, 8);
    EXPECT_GT(found, 0.99);
    EXPECT_LT(found, 1.03);
}

TEST(Paced, TheOptimizerTakesTheTimeOfTheDryRun) {
    // With more workers one that has less to update begins its next step a little earlier.
    const SmallOptions options = eight_layers({4, 4});
    const Accelerator slow{.update_s_per_element = 1e-5};
    EXPECT_GT(dry_run_of(options, {}, slow, 1).makespan_s,
              1.2 * dry_run_of(options, {}, {}, 1).makespan_s);
    EXPECT_NEAR(ratio(options, {}, 1, slow), 1.0, 1e-3);
}

TEST(Paced, AStepIsOverWhenTheDeviceIsDone) {
    const Accelerator slow{.update_s_per_element = 1e-5};
    const auto outcomes = world::run_fake_world({.workers = 1}, [&](world::World& world) {
        PacedWorker paced{world, eight_layers({4, 4}), {}, slow};
        ASSERT_EQ(paced.worker.run_step(Step{0}, engine::vote::all).status, CommStatus::ok);
        EXPECT_EQ(paced.worker.stream().record()->due(), world.clock().now());
    });
    EXPECT_FALSE(outcomes.front().error);
}

}  // namespace
}  // namespace rhizome::tests
