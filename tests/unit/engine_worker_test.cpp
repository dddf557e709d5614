// The contract's first clause: whatever the layout, the same bits. Here on the world inside one
// process, for many random shapes; tests/mpi does it with real ranks.
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/engine_run.hpp"
#include "world/fake_world.hpp"

namespace rhizome::tests {
namespace {

SmallOptions lively(LaneShape lanes) {
    return {.tying = model::Tying::tied,
            .dropout = 0.2,
            .dtype = DType::f32,
            .rows = 2,
            .lanes = lanes,
            .chunk_elements = 50};
}

void expect_equal(const WorkerEnd& found, const WorkerEnd& expected) {
    EXPECT_EQ(found.end.status, CommStatus::ok);
    EXPECT_EQ(found.end.steps_done, expected.end.steps_done);
    EXPECT_EQ(found.trace.losses, expected.trace.losses);
    EXPECT_EQ(found.trace.norms, expected.trace.norms);
    EXPECT_EQ(found.trace.evaluations, expected.trace.evaluations);
}

/// Runs on that many fake workers and compares each with the judge.
void expect_bits_of_judge(std::int32_t workers, std::uint64_t seed, const SmallOptions& options,
                          const Arrangement& arrangement, const RunLength& length) {
    const WorkerEnd expected = run_judge(options, length);
    std::vector<WorkerEnd> ends(static_cast<std::size_t>(workers));
    const auto outcomes =
        world::run_fake_world({.workers = workers, .seed = seed}, [&](world::World& world) {
            ends[world.self().index()] = run_worker(world, options, arrangement, length);
        });
    for (std::size_t w = 0; w < ends.size(); ++w) {
        SCOPED_TRACE("worker " + std::to_string(w));
        if (outcomes[w].error) std::rethrow_exception(outcomes[w].error);
        expect_equal(ends[w], expected);
        EXPECT_EQ(outcomes[w].unreceived, 0);
        EXPECT_EQ(outcomes[w].untold, 0);
    }
    EXPECT_EQ(ends.front().chunks, expected.chunks);
}

TEST(Worker, AloneHasTheBitsOfTheJudge) {
    const SmallOptions options = lively({6, 3});
    const auto world = world::make_solo_world();
    const WorkerEnd found = run_worker(*world, options, {}, {});
    const WorkerEnd expected = run_judge(options, {});
    expect_equal(found, expected);
    EXPECT_EQ(found.chunks, expected.chunks);
}

TEST(Worker, InTwoStagesHasTheBitsOfTheJudge) {
    expect_bits_of_judge(2, 1, lively({6, 3}), {.depths = {2}}, {});
}

TEST(Worker, InTwoPipelinesHasTheBitsOfTheJudge) {
    expect_bits_of_judge(2, 1, lively({6, 3}), {.depths = {1, 1}}, {});
}

/// Everything that a layout may be, and mathematics to go with it.
struct Draw {
    SmallOptions options;
    Arrangement arrangement;
    RunLength length;
    std::int32_t workers = 0;
};

Draw draw(std::uint64_t seed) {
    std::mt19937_64 random{seed};
    const auto pick = [&](std::int32_t least, std::int32_t most) {
        return std::uniform_int_distribution<std::int32_t>{least, most}(random);
    };
    Draw result;
    const std::int32_t lanes = pick(1, 9);
    result.options = lively({lanes * pick(1, 3), lanes});
    result.options.blocks = pick(1, 5);
    result.options.tying = pick(0, 1) == 0 ? model::Tying::tied : model::Tying::untied;
    result.options.rows = pick(1, 2);
    result.options.chunk_elements = pick(7, 400);
    const std::int32_t layers = result.options.blocks + 3;
    Arrangement& arrangement = result.arrangement;
    const schedule::Style styles[] = {schedule::Style::gpipe, schedule::Style::one_f_one_b,
                                      schedule::Style::interleaved, schedule::Style::zero_bubble_h1,
                                      schedule::Style::zero_bubble_h2};
    arrangement.style = styles[pick(0, 4)];
    if (arrangement.style == schedule::Style::interleaved) arrangement.parts = pick(1, 3);
    arrangement.depths.clear();
    for (std::int32_t i = pick(1, std::min(lanes, 4)); i > 0; --i) {
        arrangement.depths.push_back(pick(1, std::max(1, std::min(4, layers / arrangement.parts))));
    }
    while (arrangement.parts * arrangement.depths.front() > layers) --arrangement.parts;
    if (arrangement.depths.size() == 1 && pick(0, 1) == 0) {
        // By hand: any borders.
        std::set<std::int32_t> borders;
        const std::int32_t stages = arrangement.depths.front() * arrangement.parts;
        while (static_cast<std::int32_t>(borders.size()) + 1 < stages) {
            borders.insert(pick(1, layers - 1));
        }
        for (const std::int32_t border : borders) {
            arrangement.cut += (arrangement.cut.empty() ? "" : ",") + std::to_string(border);
        }
    }
    for (const std::int32_t depth : arrangement.depths) result.workers += depth;
    result.workers += pick(0, 2);  // spares
    arrangement.owners = pick(1, 3) == 3 ? result.workers : pick(1, 2);
    if (pick(0, 2) == 0) arrangement.recompute = engine::Recompute::all;
    result.length = {
        .steps = 3, .evaluate_interval = pick(0, 2), .evaluation_microbatches = pick(0, 6)};
    return result;
}

class RandomShapes : public testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomShapes, HaveTheBitsOfTheJudge) {
    for (std::uint64_t seed = GetParam(); seed < GetParam() + 40; ++seed) {
        const Draw drawn = draw(seed);
        SCOPED_TRACE("seed " + std::to_string(seed) + ": " + to_text(drawn.arrangement) + " on " +
                     std::to_string(drawn.workers));
        expect_bits_of_judge(drawn.workers, seed, drawn.options, drawn.arrangement, drawn.length);
        if (HasFailure()) return;
    }
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomShapes,
                         testing::Values(0, 40, 80, 120, 160, 200, 240, 280, 320, 360));

}  // namespace
}  // namespace rhizome::tests
