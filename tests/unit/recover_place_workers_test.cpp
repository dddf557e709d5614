// The cheapest way to fill places, against all ways.
#include <algorithm>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "recover/place_workers.hpp"

namespace rhizome::recover {
namespace {

using Costs = std::vector<std::vector<std::int64_t>>;

std::int64_t sum_of(const Costs& cost, const std::vector<std::size_t>& workers) {
    std::int64_t sum = 0;
    for (std::size_t place = 0; place < cost.size(); ++place) sum += cost[place][workers[place]];
    return sum;
}

std::int64_t least_of_all(const Costs& cost) {
    std::vector<std::size_t> order(cost.front().size());
    std::iota(order.begin(), order.end(), 0);
    std::int64_t least = sum_of(cost, order);
    while (std::next_permutation(order.begin(), order.end())) {
        least = std::min(least, sum_of(cost, order));
    }
    return least;
}

TEST(PlaceWorkers, NoWorkerIsInTwoPlacesAndNothingIsCheaper) {
    std::mt19937_64 random{1};
    for (int trial = 0; trial < 2000; ++trial) {
        const std::size_t workers = 1 + random() % 6;
        const std::size_t places = 1 + random() % workers;
        Costs cost(places, std::vector<std::int64_t>(workers));
        for (auto& row : cost) {
            for (auto& each : row) each = static_cast<std::int64_t>(random() % 8);
        }
        const std::vector<std::size_t> found = place_workers(cost);
        ASSERT_EQ(found.size(), places);
        std::vector<std::size_t> distinct = found;
        std::sort(distinct.begin(), distinct.end());
        EXPECT_EQ(std::unique(distinct.begin(), distinct.end()), distinct.end());
        EXPECT_LT(distinct.back(), workers);
        EXPECT_EQ(sum_of(cost, found), least_of_all(cost));
        EXPECT_EQ(found, place_workers(cost));
        if (HasFailure()) return;
    }
}

TEST(PlaceWorkers, WhoHasEverythingStays) {
    const Costs cost{{0, 5, 5}, {5, 5, 0}};
    EXPECT_EQ(place_workers(cost), (std::vector<std::size_t>{0, 2}));
}

TEST(PlaceWorkers, NoPlacesNeedNobody) { EXPECT_TRUE(place_workers({}).empty()); }

}  // namespace
}  // namespace rhizome::recover
