// The rules of plan/ownership.hpp once more, by trying everything: which sets of owners are
// allowed, and whether a map is the best of all that are. For small cases only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "plan/ownership.hpp"

namespace rhizome::plan {

using Places = std::vector<std::int32_t>;

struct Case {
    LayerTable table;
    RunShape shape;
    std::vector<FailureDomain> domains;
    std::int32_t redundancy;
};

enum class Role : std::uint8_t { holder, shadow, anybody };

inline Role role_of(const Case& all, LayerId layer, WorkerId worker) {
    Role role = Role::anybody;
    for (const PipelineShape& pipeline : all.shape.pipelines) {
        for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
            const LayerRange range = pipeline.stages[s].layers;
            if (layer.value() < range.first || layer.value() >= range.last) continue;
            if (pipeline.stages[s].worker == worker) return Role::holder;
            const std::size_t neighbour = s == 0 ? 1 : s - 1;
            if (neighbour < pipeline.stages.size() && pipeline.stages[neighbour].worker == worker) {
                role = Role::shadow;
            }
        }
    }
    return role;
}

/// The sets of places that rules 1 to 3 allow a layer's chunks.
inline std::vector<Places> allowed_sets(const Case& all, LayerId layer) {
    const std::size_t workers = all.shape.workers.size();
    std::map<std::tuple<std::size_t, int, int>, std::vector<Places>> by_rank;
    for (std::uint32_t bits = 0; bits < (1U << workers); ++bits) {
        Places places;
        std::set<FailureDomain> domains;
        int holders = 0;
        int shadows = 0;
        for (std::size_t p = 0; p < workers; ++p) {
            if ((bits >> p & 1U) == 0) continue;
            places.push_back(static_cast<std::int32_t>(p));
            domains.insert(all.domains[p]);
            const Role role = role_of(all, layer, all.shape.workers[p]);
            holders += role == Role::holder ? 1 : 0;
            shadows += role == Role::shadow ? 1 : 0;
        }
        const auto copies = std::min(static_cast<std::size_t>(all.redundancy), workers);
        if (places.size() == copies) by_rank[{domains.size(), holders, shadows}].push_back(places);
    }
    return by_rank.rbegin()->second;
}

inline Places places_in(const RunShape& shape, const std::vector<WorkerId>& workers) {
    Places places;
    for (const WorkerId worker : workers) {
        const auto found = std::find(shape.workers.begin(), shape.workers.end(), worker);
        if (found != shape.workers.end()) {
            places.push_back(static_cast<std::int32_t>(found - shape.workers.begin()));
        }
    }
    std::sort(places.begin(), places.end());
    return places;
}

/// The square in straight lines between multiples of the unit, times the unit.
inline std::int64_t coarse(std::int64_t load, std::int64_t unit) {
    const std::int64_t full = load / unit;
    return full * full * unit + (load % unit) * (2 * full + 1);
}

using Rank = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // coarse, moved, fine

struct Choice {
    std::vector<Places> sets;  // any of these
    Places before;
};

inline Rank rank_of(std::vector<std::int64_t> loads, const std::vector<Choice>& choices,
                    const std::vector<Places>& chosen, std::int64_t elements, std::int64_t unit) {
    std::int64_t kept = 0;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        for (const std::int32_t place : chosen[i]) {
            loads[static_cast<std::size_t>(place)] += elements;
            kept += std::count(choices[i].before.begin(), choices[i].before.end(), place);
        }
    }
    Rank rank{0, -kept, 0};
    for (const std::int64_t load : loads) {
        std::get<0>(rank) += coarse(load, unit);
        std::get<2>(rank) += load * load;
    }
    return rank;
}

/// The least rank of all ways to choose.
inline Rank least_rank(const std::vector<std::int64_t>& loads, const std::vector<Choice>& choices,
                       std::int64_t elements, std::int64_t unit) {
    std::vector<std::size_t> at(choices.size(), 0);
    std::optional<Rank> least;
    for (;;) {
        std::vector<Places> chosen;
        for (std::size_t i = 0; i < at.size(); ++i) chosen.push_back(choices[i].sets[at[i]]);
        const Rank rank = rank_of(loads, choices, chosen, elements, unit);
        if (!least || rank < *least) least = rank;
        std::size_t i = 0;
        while (i < at.size() && ++at[i] == choices[i].sets.size()) at[i++] = 0;
        if (i == at.size()) return *least;
    }
}

/// Rules 4 to 6 for the chunks of each size, given where the larger ones lie. False: too many ways.
inline bool expect_least(const Case& all, const std::vector<Choice>& choices,
                         const std::vector<Places>& chosen, const OwnershipMap& map) {
    std::map<std::int64_t, std::vector<std::size_t>, std::greater<>> by_size;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        by_size[all.table.elements_of(map.chunks[i].chunk)].push_back(i);
    }
    const std::int64_t unit = by_size.begin()->first;
    std::vector<std::int64_t> loads(all.shape.workers.size(), 0);
    for (const auto& [elements, indices] : by_size) {
        std::vector<Choice> choices_here;
        std::vector<Places> chosen_here;
        double ways = 1;
        for (const std::size_t i : indices) {
            choices_here.push_back(choices[i]);
            chosen_here.push_back(chosen[i]);
            ways *= static_cast<double>(choices[i].sets.size());
        }
        if (ways > 20000) return false;
        EXPECT_EQ(rank_of(loads, choices_here, chosen_here, elements, unit),
                  least_rank(loads, choices_here, elements, unit));
        for (const Places& places : chosen_here) {
            for (const std::int32_t p : places) loads[static_cast<std::size_t>(p)] += elements;
        }
    }
    return true;
}

/// False: too large to try everything.
inline bool expect_best(const Case& all, const OwnershipMap* previous, const OwnershipMap& map) {
    std::vector<Choice> choices;
    std::vector<Choice> first_choices;
    std::vector<Places> chosen;
    std::vector<Places> first_chosen;
    for (std::size_t i = 0; i < map.chunks.size(); ++i) {
        const OwnedChunk& chunk = map.chunks[i];
        const LayerId layer = chunk.chunk.tensor.layer;
        chosen.push_back(places_in(all.shape, chunk.owners));
        first_chosen.push_back(places_in(all.shape, {chunk.owners.front()}));
        choices.push_back({allowed_sets(all, layer), {}});
        EXPECT_EQ(std::count(choices[i].sets.begin(), choices[i].sets.end(), chosen[i]), 1);
        EXPECT_TRUE(std::is_sorted(chunk.owners.begin() + 1, chunk.owners.end()));
        Choice firsts;
        for (const WorkerId owner : chunk.owners) {
            if (role_of(all, layer, owner) != Role::holder) continue;
            firsts.sets.push_back(places_in(all.shape, {owner}));
        }
        if (firsts.sets.empty()) {
            for (const std::int32_t place : chosen[i]) firsts.sets.push_back({place});
        }
        EXPECT_EQ(std::count(firsts.sets.begin(), firsts.sets.end(), first_chosen[i]), 1);
        if (previous != nullptr) {
            const auto& owners = previous->chunks[i].owners;
            choices[i].before = places_in(all.shape, owners);
            firsts.before = places_in(all.shape, {owners.front()});
        }
        first_choices.push_back(firsts);
    }
    return expect_least(all, choices, chosen, map) &&
           expect_least(all, first_choices, first_chosen, map);
}

}  // namespace rhizome::plan
