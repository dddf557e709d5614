#include "core/lane_tree.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace rhizome {

LaneShape::LaneShape(std::int32_t microbatches_of_step, std::int32_t lanes_of_step)
    : microbatches{microbatches_of_step}, lanes{lanes_of_step} {
    ENSURE(lanes > 0 && microbatches > 0 && microbatches % lanes == 0);
}

Lane LaneShape::lane_of(Microbatch microbatch) const {
    ENSURE(microbatch.value() < microbatches);
    return Lane{microbatch.value() / length()};
}

Microbatch LaneShape::first_of(Lane lane) const {
    ENSURE(lane.value() < lanes);
    return Microbatch{lane.value() * length()};
}

std::int32_t tree_split(LaneRange lanes) {
    ENSURE(lanes.size() >= 2);
    const auto size = static_cast<std::uint32_t>(lanes.size());
    return lanes.first + static_cast<std::int32_t>(std::bit_floor(size - 1));
}

namespace {

void collect(LaneRange tree, LaneRange part, std::vector<LaneRange>& found) {
    if (tree.last <= part.first || part.last <= tree.first) return;
    if (part.first <= tree.first && tree.last <= part.last) {
        found.push_back(tree);
        return;
    }
    const std::int32_t middle = tree_split(tree);
    collect({tree.first, middle}, part, found);
    collect({middle, tree.last}, part, found);
}

/// Of a set of lanes.
std::vector<LaneRange> largest_subtrees(std::int32_t lanes, const std::vector<bool>& set) {
    std::vector<LaneRange> subtrees;
    for (std::int32_t lane = 0; lane < lanes; ++lane) {
        LaneRange run{lane, lane};
        while (run.last < lanes && set[static_cast<std::size_t>(run.last)]) ++run.last;
        if (run.size() == 0) continue;
        collect({0, lanes}, run, subtrees);
        lane = run.last;
    }
    return subtrees;
}

}  // namespace

std::vector<LaneRange> complete_subtrees(std::int32_t lanes, LaneRange part) {
    ENSURE(0 <= part.first && part.first < part.last && part.last <= lanes);
    std::vector<LaneRange> found;
    collect({0, lanes}, part, found);
    return found;
}

std::vector<bool> common_lanes(const std::vector<std::vector<bool>>& sets) {
    ENSURE(!sets.empty());
    const auto lanes = static_cast<std::int32_t>(sets.front().size());
    std::vector<bool> common(sets.front().size(), true);
    for (const std::vector<bool>& set : sets) {
        for (std::size_t lane = 0; lane < common.size(); ++lane) {
            common[lane] = common[lane] && set[lane];
        }
    }
    for (bool changed = true; std::exchange(changed, false);) {
        for (const std::vector<bool>& set : sets) {
            for (const LaneRange subtree : largest_subtrees(lanes, set)) {
                const auto first = common.begin() + subtree.first;
                const auto last = common.begin() + subtree.last;
                const auto there = std::count(first, last, true);
                if (there == 0 || there == subtree.size()) continue;
                std::fill(first, last, false);
                changed = true;
            }
        }
    }
    return common;
}

LaneRange parent_of(std::int32_t lanes, LaneRange subtree) {
    LaneRange tree{0, lanes};
    ENSURE(subtree != tree);
    while (true) {
        const std::int32_t middle = tree_split(tree);
        const LaneRange child =
            subtree.first < middle ? LaneRange{tree.first, middle} : LaneRange{middle, tree.last};
        if (child == subtree) return tree;
        ENSURE(child.first <= subtree.first && subtree.last <= child.last);
        tree = child;
    }
}

}  // namespace rhizome
