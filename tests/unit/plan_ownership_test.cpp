#include "plan/ownership.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "unit/plan_all_maps.hpp"

namespace rhizome::plan {
namespace {

using testing::ElementsAre;

std::int32_t draw(std::mt19937& random, std::int32_t bound) {
    return static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(bound));
}

constexpr std::int64_t chunk_elements = 12;

/// One tensor a layer, of that many elements.
LayerTable table_of(const std::vector<std::int64_t>& elements) {
    LayerTable table{.layers = {}, .chunk_elements = chunk_elements};
    for (const std::int64_t count : elements) {
        table.layers.push_back({.name = "layer." + std::to_string(table.layers.size()),
                                .parameters = {{.spec = {"w", {count}}}},
                                .outputs = {},
                                .fields = {},
                                .costs = {}});
    }
    return table;
}

/// Even cuts, one lane a pipeline, workers in the order of their ids; whoever is left is a spare.
RunShape shape_of(const std::vector<std::int32_t>& ids, const std::vector<std::int32_t>& depths,
                  std::int32_t layers) {
    const auto pipelines = static_cast<std::int32_t>(depths.size());
    RunShape shape{.workers = {}, .lanes = LaneShape{pipelines, pipelines}, .pipelines = {}};
    for (const std::int32_t id : ids) shape.workers.emplace_back(id);
    std::size_t next = 0;
    for (std::int32_t p = 0; p < pipelines; ++p) {
        const std::int32_t depth = depths[static_cast<std::size_t>(p)];
        PipelineShape pipeline{.stages = {}, .lanes = {p, p + 1}};
        for (std::int32_t s = 0; s < depth; ++s) {
            pipeline.stages.push_back(
                {shape.workers[next++], {s * layers / depth, (s + 1) * layers / depth}});
        }
        shape.pipelines.push_back(pipeline);
    }
    return shape;
}

std::vector<FailureDomain> domains_of(const std::vector<std::int32_t>& numbers) {
    std::vector<FailureDomain> domains;
    for (const std::int32_t number : numbers) domains.emplace_back(number);
    return domains;
}

std::set<WorkerId> owner_set(const OwnedChunk& chunk) {
    return {chunk.owners.begin(), chunk.owners.end()};
}

std::map<WorkerId, int> chunks_by_worker(const RunShape& shape, const OwnershipMap& map) {
    std::map<WorkerId, int> counts;
    for (const WorkerId worker : shape.workers) counts[worker] = 0;
    for (const OwnedChunk& chunk : map.chunks) {
        for (const WorkerId owner : chunk.owners) ++counts[owner];
    }
    return counts;
}

/// Owners in `after` that did not own the chunk in `before`.
int moves(const OwnershipMap& before, const OwnershipMap& after) {
    int count = 0;
    for (std::size_t i = 0; i < after.chunks.size(); ++i) {
        const auto was = owner_set(before.chunks[i]);
        for (const WorkerId owner : after.chunks[i].owners) count += was.contains(owner) ? 0 : 1;
    }
    return count;
}

OwnershipMap assign(const Case& all, const OwnershipMap* previous = nullptr) {
    return assign_owners(all.table, all.shape, all.domains, all.redundancy, previous);
}

enum class Sizes : std::uint8_t { equal, mixed };

Case random_case(std::mt19937& random, Sizes sizes) {
    const std::int32_t workers = 1 + draw(random, 5);
    std::vector<std::int64_t> elements;
    const std::int32_t layers = 1 + draw(random, 4);
    for (std::int32_t chunks = 6; chunks > 0;) {
        if (std::cmp_equal(elements.size(), layers)) break;
        const std::int32_t here = std::min(chunks, 1 + draw(random, 3));
        chunks -= here;
        const std::int64_t missing = sizes == Sizes::equal ? 0 : draw(random, 12);
        elements.push_back(here * chunk_elements - missing);
    }
    const auto count = static_cast<std::int32_t>(elements.size());
    std::vector<std::int32_t> ids;
    std::vector<std::int32_t> domains;
    const std::int32_t domain_bound = 1 + draw(random, workers);
    for (std::int32_t w = 0; w < workers; ++w) {
        ids.push_back(w + draw(random, 2) + (w > 0 ? ids.back() + 1 - w : 0));
        domains.push_back(draw(random, domain_bound));
    }
    std::vector<std::int32_t> depths{1 + draw(random, std::min(workers, count))};
    for (std::int32_t left = workers - depths[0]; left > 0 && draw(random, 3) > 0;) {
        depths.push_back(1 + draw(random, std::min(left, count)));
        left -= depths.back();
    }
    return {table_of(elements), shape_of(ids, depths, count), domains_of(domains),
            1 + draw(random, 3)};
}

TEST(AssignOwners, IsTheBestOfAllMaps) {
    std::mt19937 random{1};
    int tried = 0;
    for (int round = 0; round < 1500; ++round) {
        const Case all = random_case(random, round % 2 == 0 ? Sizes::equal : Sizes::mixed);
        const OwnershipMap map = assign(all);
        tried += expect_best(all, nullptr, map) ? 1 : 0;
        EXPECT_EQ(assign(all), map);
        ASSERT_FALSE(testing::Test::HasFailure()) << "round " << round;
    }
    EXPECT_GT(tried, 1300);
}

// The map from before is that of any other shape, or none that anybody would choose.
TEST(AssignOwners, ReplacesAsFewAsBalanceAllows) {
    std::mt19937 random{2};
    int tried = 0;
    for (int round = 0; round < 3000; ++round) {
        const Case all = random_case(random, round % 2 == 0 ? Sizes::equal : Sizes::mixed);
        OwnershipMap before = assign(all);
        for (OwnedChunk& chunk : before.chunks) {
            std::set<std::int32_t> owners;
            for (std::int32_t i = 0; i <= draw(random, 3); ++i) owners.insert(draw(random, 9));
            chunk.owners.clear();
            for (const std::int32_t owner : owners) chunk.owners.emplace_back(owner);
            std::swap(chunk.owners.front(), chunk.owners.back());
        }
        const OwnershipMap map = assign(all, &before);
        tried += expect_best(all, &before, map) ? 1 : 0;
        EXPECT_EQ(assign(all, &map), map);  // what is best already stays
        ASSERT_FALSE(testing::Test::HasFailure()) << "round " << round;
    }
    EXPECT_GT(tried, 2600);
}

TEST(AssignOwners, GivesOneWorkerAll) {
    const Case all{table_of({30, 5}), shape_of({3}, {1}, 2), domains_of({0}), 2};
    for (const OwnedChunk& chunk : assign(all).chunks) {
        EXPECT_THAT(chunk.owners, ElementsAre(WorkerId{3}));
    }
    EXPECT_EQ(assign(all).chunks.size(), 4U);
}

TEST(AssignOwners, IsBamboosShadowWithOnePipeline) {
    const Case all{table_of({12, 12, 12}), shape_of({0, 1, 2}, {3}, 3), domains_of({0, 1, 2}), 2};
    const auto map = assign(all);
    EXPECT_THAT(map.chunks[0].owners, ElementsAre(WorkerId{0}, WorkerId{1}));
    EXPECT_THAT(map.chunks[1].owners, ElementsAre(WorkerId{1}, WorkerId{0}));
    EXPECT_THAT(map.chunks[2].owners, ElementsAre(WorkerId{2}, WorkerId{1}));
}

TEST(AssignOwners, PutsDomainsBeforeShadows) {
    // The shadow of the last stage shares its domain; the spare does not.
    const Case all{table_of({12, 12}), shape_of({0, 1, 2}, {2}, 2), domains_of({0, 0, 1}), 2};
    const auto map = assign(all);
    EXPECT_THAT(map.chunks[1].owners, ElementsAre(WorkerId{1}, WorkerId{2}));
}

TEST(AssignOwners, IsAShardedOptimizerWithManyPipelines) {
    const Case all{table_of({12 * 8}), shape_of({0, 1, 2, 3}, {1, 1, 1, 1}, 1),
                   domains_of({0, 0, 1, 1}), 2};
    const auto map = assign(all);
    std::map<WorkerId, int> firsts;
    for (const OwnedChunk& chunk : map.chunks) {
        EXPECT_NE(chunk.owners[0].value() / 2, chunk.owners[1].value() / 2);
        ++firsts[chunk.owners[0]];
    }
    for (const auto& [worker, count] : chunks_by_worker(all.shape, map)) EXPECT_EQ(count, 4);
    for (const auto& [worker, count] : firsts) EXPECT_EQ(count, 2);
    EXPECT_EQ(firsts.size(), 4U);
}

TEST(AssignOwners, IsReplicationWhereAllOwn) {
    const Case all{table_of({40, 40}), shape_of({0, 1, 2}, {2, 1}, 2), domains_of({0, 0, 0}), 9};
    for (const OwnedChunk& chunk : assign(all).chunks) EXPECT_EQ(owner_set(chunk).size(), 3U);
}

TEST(AssignOwners, ServesMoreWorkersThanChunks) {
    const Case all{table_of({12}), shape_of({0, 1, 2, 3, 4, 5}, {1, 1, 1}, 1),
                   domains_of({0, 1, 2, 3, 4, 5}), 2};
    const auto map = assign(all);
    ASSERT_EQ(map.chunks.size(), 1U);
    EXPECT_THAT(map.chunks[0].owners, ElementsAre(WorkerId{0}, WorkerId{1}));
}

TEST(AssignOwners, CountsBothUsesOfATiedTensor) {
    LayerTable table = table_of({24, 12, 24});
    table.layers[2].parameters[0].tied_to = TensorRef{LayerId{0}, 0};
    const Case all{table, shape_of({0, 1, 2}, {3}, 3), domains_of({0, 1, 2}), 2};
    const auto map = assign(all);
    ASSERT_EQ(map.chunks.size(), 3U);
    EXPECT_EQ(owner_set(map.chunks[0]), (std::set{WorkerId{0}, WorkerId{2}}));
    EXPECT_EQ(owner_set(map.chunks[1]), (std::set{WorkerId{0}, WorkerId{2}}));
    EXPECT_NE(map.chunks[0].owners[0], map.chunks[1].owners[0]);  // they share the sending
}

TEST(AssignOwners, MovesAfterALossOnlyWhatTheLostWorkerOwned) {
    const Case all{table_of({12 * 60}), shape_of({0, 1, 2, 3, 4, 5}, {1, 1, 1, 1, 1, 1}, 1),
                   domains_of({0, 1, 2, 3, 4, 5}), 2};
    const auto before = assign(all);
    const Case fewer{all.table, shape_of({0, 1, 3, 4, 5}, {1, 1, 1, 1, 1}, 1),
                     domains_of({0, 1, 3, 4, 5}), 2};
    const auto after = assign(fewer, &before);
    EXPECT_EQ(moves(before, after), 20);  // 120 owners, 20 of them on worker 2
    for (const auto& [worker, count] : chunks_by_worker(fewer.shape, after)) EXPECT_EQ(count, 24);
}

TEST(AssignOwners, GivesANewcomerItsShareAndNoMore) {
    const Case all{table_of({12 * 60}), shape_of({0, 1, 2, 3, 4}, {1, 1, 1, 1, 1}, 1),
                   domains_of({0, 1, 2, 3, 4}), 2};
    const auto before = assign(all);
    const Case more{all.table, shape_of({0, 1, 2, 3, 4, 5}, {1, 1, 1, 1, 1, 1}, 1),
                    domains_of({0, 1, 2, 3, 4, 5}), 2};
    const auto after = assign(more, &before);
    EXPECT_EQ(moves(before, after), 20);
    for (const auto& [worker, count] : chunks_by_worker(more.shape, after)) EXPECT_EQ(count, 20);
}

TEST(AssignOwners, MovesNothingForLessThanAChunk) {
    // Twelve and six on worker 0, nothing of the kind on worker 1: fresh, the small one would go
    // there.
    const Case all{table_of({12, 6}), shape_of({0, 1}, {1, 1}, 2), domains_of({0, 1}), 1};
    OwnershipMap before = assign(all);
    EXPECT_NE(before.chunks[0].owners, before.chunks[1].owners);
    before.chunks[0].owners = {WorkerId{0}};
    before.chunks[1].owners = {WorkerId{0}};
    const auto after = assign(all, &before);
    // A whole chunk and a half is more than a chunk above nothing, so here it does move ...
    EXPECT_EQ(moves(before, after), 1);
    const Case three{table_of({12, 12, 6}), shape_of({0, 1}, {1, 1}, 3), domains_of({0, 1}), 1};
    const OwnershipMap kept{.chunks = {{{{LayerId{0}, 0}, 0}, {WorkerId{1}}},
                                       {{{LayerId{1}, 0}, 0}, {WorkerId{0}}},
                                       {{{LayerId{2}, 0}, 0}, {WorkerId{1}}}}};
    EXPECT_EQ(assign(three, &kept), kept);  // ... and here it does not
}

TEST(AssignOwners, DoesLargeNetworks) {
    std::vector<std::int64_t> elements;
    for (int i = 0; i < 96; ++i) elements.push_back(12 * 24 + (i % 3 == 0 ? 7 : 0));
    std::vector<std::int32_t> ids;
    std::vector<std::int32_t> domains;
    for (std::int32_t w = 0; w < 64; ++w) {
        ids.push_back(w);
        domains.push_back(w / 4);
    }
    const std::vector<std::int32_t> depths(8, 8);
    const Case all{table_of(elements), shape_of(ids, depths, 96), domains_of(domains), 2};
    const auto before = assign(all);
    ids.erase(ids.begin() + 13);
    domains.erase(domains.begin() + 13);
    const std::vector<std::int32_t> depths_left{8, 8, 8, 8, 8, 8, 8, 7};
    const Case fewer{all.table, shape_of(ids, depths_left, 96), domains_of(domains), 2};
    const auto after = assign(fewer, &before);
    EXPECT_EQ(after.chunks.size(), before.chunks.size());
    EXPECT_EQ(assign(fewer, &after), after);
}

}  // namespace
}  // namespace rhizome::plan
