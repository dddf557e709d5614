// Equal digests, equal state: every number of it has its part, and every name.
#include "engine/state_digest.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/engine_run.hpp"
#include "support/workbench.hpp"
#include "world/fake_world.hpp"

namespace rhizome::tests {
namespace {

using engine::ChunkDigest;

std::string digest(const std::vector<double>& parameter, const std::vector<double>& first,
                   const std::vector<double>& second) {
    Workbench bench;
    const auto put = [&](const std::vector<double>& values) {
        return bench.put(Shape{static_cast<std::int64_t>(values.size())}, DType::f64, values);
    };
    return engine::digest_of_chunk(bench.stream(), put(parameter), put(first), put(second));
}

TEST(ChunkDigest, DependsOnParametersAndBothMoments) {
    const std::string same = digest({1, 2}, {3, 4}, {5, 6});
    EXPECT_EQ(digest({1, 2}, {3, 4}, {5, 6}), same);
    EXPECT_NE(digest({1, 7}, {3, 4}, {5, 6}), same);
    EXPECT_NE(digest({1, 2}, {7, 4}, {5, 6}), same);
    EXPECT_NE(digest({1, 2}, {3, 4}, {5, 7}), same);
    EXPECT_NE(digest({3, 4}, {1, 2}, {5, 6}), same);
    EXPECT_NE(digest({1, 2}, {5, 6}, {3, 4}), same);
}

TEST(StateDigest, DependsOnNamesTextsAndOrder) {
    const std::vector<ChunkDigest> chunks{{"a#0", "12"}, {"b#0", "34"}};
    const std::string same = digest_of(chunks);
    EXPECT_EQ(digest_of(chunks), same);
    EXPECT_NE(digest_of(std::vector<ChunkDigest>{{"a#0", "34"}, {"b#0", "12"}}), same);
    EXPECT_NE(digest_of(std::vector<ChunkDigest>{{"a#1", "12"}, {"b#0", "34"}}), same);
    EXPECT_NE(digest_of(std::vector<ChunkDigest>{{"b#0", "34"}, {"a#0", "12"}}), same);
    EXPECT_NE(digest_of(std::vector<ChunkDigest>{{"a#0", "12"}}), same);
}

TEST(GatheredDigests, AreOfAllChunksInTheirOrderOnTheFirstMemberAlone) {
    const SmallOptions options{};
    const model::Network network = network_of(options);
    const MemoryText text = small_text();
    std::vector<std::string> names;
    for (const TensorRef tensor : network.table().owned()) {
        for (std::int32_t i = 0; i < network.table().chunks_of(tensor); ++i) {
            names.push_back(engine::chunk_name(network.table(), {tensor, i}));
        }
    }
    const auto outcomes = world::run_fake_world({.workers = 4}, [&](world::World& world) {
        const RunLength none{.steps = 0, .evaluate_interval = 0, .evaluation_microbatches = 0};
        const WorkerEnd end = run_worker(world, {network, text, options.rows, options.lanes},
                                         {.depths = {3}, .owners = 1}, none);
        EXPECT_EQ(end.end.status, CommStatus::ok);
        std::vector<std::string> found;
        for (const ChunkDigest& chunk : end.chunks) found.push_back(chunk.name);
        EXPECT_EQ(found, world.self() == WorkerId{0} ? names : std::vector<std::string>{});
    });
    for (const auto& outcome : outcomes) {
        if (outcome.error) std::rethrow_exception(outcome.error);
        EXPECT_EQ(outcome.unreceived, 0);
    }
    EXPECT_THAT(names, testing::Contains("embedding/token#1"));
}

}  // namespace
}  // namespace rhizome::tests
