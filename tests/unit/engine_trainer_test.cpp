// What may not change the weights: how the microbatches of a step are divided over calls, threads,
// recomputation, evaluation in between. And what must: everything else.
#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "support/small_gpt.hpp"

namespace rhizome::tests {
namespace {

/// An order of a step's microbatches in which each lane ascends and lanes are mixed at random.
std::vector<Microbatch> mixed_order(LaneShape lanes, std::mt19937_64& random) {
    std::vector<std::int32_t> turns;  // a lane per microbatch
    for (std::int32_t m = 0; m < lanes.microbatches; ++m) {
        turns.push_back(lanes.lane_of(Microbatch{m}).value());
    }
    std::shuffle(turns.begin(), turns.end(), random);
    std::vector<std::int32_t> done(static_cast<std::size_t>(lanes.lanes));
    std::vector<Microbatch> order;
    for (const std::int32_t lane : turns) {
        order.emplace_back(lanes.first_of(Lane{lane}).value() +
                           done[static_cast<std::size_t>(lane)]++);
    }
    return order;
}

SmallOptions lively() {
    return {.tying = model::Tying::tied,
            .dropout = 0.2,
            .dtype = DType::f32,
            .rows = 3,
            .lanes = {12, 6},
            .chunk_elements = 50};
}

std::string digest_after(const SmallOptions& options, std::int32_t steps) {
    SmallRun run{options};
    for (std::int32_t step = 0; step < steps; ++step) run.trainer.run_step(Step{step});
    return run.trainer.digest();
}

class LaneShapes : public testing::TestWithParam<LaneShape> {};

TEST_P(LaneShapes, AnyDivisionOfAStepThatRespectsLanesGivesTheSameBits) {
    SmallOptions options = lively();
    options.lanes = GetParam();
    const std::string calm = digest_after(options, 4);

    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random{seed};
        SmallRun run{options};
        for (std::int32_t step = 0; step < 4; ++step) {
            for (const Microbatch microbatch : mixed_order(options.lanes, random)) {
                run.trainer.run_microbatch(Step{step}, microbatch);
            }
            run.trainer.finish_step(Step{step});
        }
        EXPECT_EQ(run.trainer.digest(), calm);
    }
}
INSTANTIATE_TEST_SUITE_P(Shapes, LaneShapes,
                         testing::Values(LaneShape{12, 6}, LaneShape{12, 12}, LaneShape{12, 1},
                                         LaneShape{12, 3}, LaneShape{5, 5}, LaneShape{14, 7},
                                         LaneShape{1, 1}));

TEST(Trainer, LanesAreMathematics) {
    // Were every sum exact, this test would fail and lanes would not be needed.
    SmallOptions one_lane = lively();
    one_lane.lanes = {12, 1};
    EXPECT_NE(digest_after(one_lane, 2), digest_after(lively(), 2));
}

TEST(Trainer, ThreadsChangeNoBit) {
    const std::string one = digest_after(lively(), 3);
    for (const std::int32_t threads : {2, 3, 5}) {
        SmallOptions options = lively();
        options.threads = threads;
        EXPECT_EQ(digest_after(options, 3), one) << threads;
    }
}

TEST(Trainer, RecomputationChangesNoBit) {
    for (const double dropout : {0.0, 0.3}) {
        SmallOptions options = lively();
        options.dropout = dropout;
        const std::string kept = digest_after(options, 3);
        options.recompute = engine::Recompute::all;
        EXPECT_EQ(digest_after(options, 3), kept) << dropout;
    }
}

TEST(Trainer, EvaluationInBetweenChangesNoBit) {
    const std::string calm = digest_after(lively(), 3);
    SmallRun run{lively()};
    for (std::int32_t step = 0; step < 3; ++step) {
        const double before = run.trainer.evaluate(run.text, 4);
        EXPECT_EQ(run.trainer.evaluate(run.text, 4), before);  // no dropout, no state
        run.trainer.run_step(Step{step});
    }
    EXPECT_EQ(run.trainer.digest(), calm);
}

TEST(Trainer, ChunksChangeOnlyTheOrderOfTheNorm) {
    SmallOptions options = lively();
    SmallRun small_chunks{options};
    options.chunk_elements = 1 << 20;
    SmallRun one_chunk{options};
    const double a = small_chunks.trainer.run_step(Step{0}).gradient_norm;
    const double b = one_chunk.trainer.run_step(Step{0}).gradient_norm;
    EXPECT_NEAR(a, b, 1e-12 * b);
}

TEST(Trainer, EverythingThatIsMathematicsChangesTheDigest) {
    const std::string base = digest_after(lively(), 2);
    SmallOptions untied = lively();
    untied.tying = model::Tying::untied;
    SmallOptions no_dropout = lively();
    no_dropout.dropout = 0.0;
    SmallOptions fewer_rows = lively();
    fewer_rows.rows = 2;
    const std::vector<std::string> others{digest_after(untied, 2), digest_after(no_dropout, 2),
                                          digest_after(fewer_rows, 2), digest_after(lively(), 3)};
    EXPECT_THAT(others, testing::Each(testing::Ne(base)));
}

TEST(Trainer, LearnsTheText) {
    SmallOptions options = lively();
    options.dropout = 0.0;
    SmallRun run{options};
    const double before = run.trainer.evaluate(run.text, 100);
    for (std::int32_t step = 0; step < 150; ++step) run.trainer.run_step(Step{step});
    EXPECT_NEAR(before, std::log(11.0), 0.05);  // a fresh network knows nothing
    EXPECT_LT(run.trainer.evaluate(run.text, 100), before - 0.2);
}

TEST(Trainer, ADivergedStepIsReportedAndLeavesTheParametersAlone) {
    SmallRun run{{}};
    run.trainer.run_step(Step{0});
    const TensorRef token{LayerId{0}, 0};
    auto values = run.read(run.trainer.parameters().at(token));
    values[3] = std::numeric_limits<double>::infinity();
    run.write(run.trainer.parameters().at(token), values);
    const std::string before = run.trainer.digest();

    try {
        run.trainer.run_step(Step{1});
        ADD_FAILURE() << "an infinite weight went unnoticed";
    } catch (const DivergedError& error) {
        EXPECT_EQ(error.code(), ExitCode::diverged);
        EXPECT_THAT(error.what(), testing::HasSubstr("diverged after 1 steps"));
        EXPECT_THAT(error.what(), testing::HasSubstr("learning_rate"));
    }
    EXPECT_EQ(run.trainer.digest(), before);
}

TEST(Trainer, NoticesThatAnUpdateWasTooLarge) {
    SmallRun run{{}};
    run.trainer.expect_finite_parameters();
    const TensorRef token{LayerId{0}, 0};
    auto values = run.read(run.trainer.parameters().at(token));
    values[5] = std::numeric_limits<double>::quiet_NaN();
    run.write(run.trainer.parameters().at(token), values);
    EXPECT_THROW(run.trainer.expect_finite_parameters(), DivergedError);
    EXPECT_THROW(static_cast<void>(run.trainer.evaluate(run.text, 4)), DivergedError);
}

TEST(TrainerDeathTest, AMicrobatchOutOfItsLanesOrderIsOurMistake) {
    SmallRun run{lively()};
    EXPECT_EXIT(run.trainer.run_microbatch(Step{0}, Microbatch{1}), testing::ExitedWithCode(1),
                "broken promise");
}

TEST(TrainerDeathTest, AMicrobatchThatComesTwiceIsOurMistake) {
    SmallRun run{lively()};
    run.trainer.run_microbatch(Step{0}, Microbatch{0});
    run.trainer.run_microbatch(Step{0}, Microbatch{1});  // the last of its lane
    EXPECT_EXIT(run.trainer.run_microbatch(Step{0}, Microbatch{1}), testing::ExitedWithCode(1),
                "broken promise");
}

TEST(TrainerDeathTest, AStepCannotEndBeforeAllItsMicrobatches) {
    SmallRun run{lively()};
    run.trainer.run_microbatch(Step{0}, Microbatch{0});
    EXPECT_EXIT(run.trainer.finish_step(Step{0}), testing::ExitedWithCode(1), "broken promise");
}

}  // namespace
}  // namespace rhizome::tests
