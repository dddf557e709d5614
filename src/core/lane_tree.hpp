// The M microbatches of a step form a fixed number of lanes, and the lanes' sums are added in a
// fixed binary tree over lane numbers. Both depend on nothing but the two counts, so any pipeline
// may compute any lanes and pre-add any complete subtree, and the step's gradient keeps its bits.
//
// The tree over lanes [first, last) splits off, on the left, the largest power of two that is
// smaller than their number (as the Merkle trees of RFC 6962 do):
//
//     8 lanes  ((0 1)(2 3))((4 5)(6 7))        5 lanes  ((0 1)(2 3)) 4
//     6 lanes  ((0 1)(2 3))(4 5)               3 lanes  (0 1) 2
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "core/ids.hpp"

namespace rhizome {

/// Microbatches per step, in lanes of equal length.
/// Invariant: lanes divides microbatches, both positive.
struct LaneShape {
    std::int32_t microbatches;
    std::int32_t lanes;

    LaneShape(std::int32_t microbatches_of_step, std::int32_t lanes_of_step);

    [[nodiscard]] std::int32_t length() const { return microbatches / lanes; }
    [[nodiscard]] Lane lane_of(Microbatch microbatch) const;
    [[nodiscard]] Microbatch first_of(Lane lane) const;
    friend bool operator==(const LaneShape&, const LaneShape&) = default;
};

/// A run of neighbouring lanes.
struct LaneRange {
    std::int32_t first;
    std::int32_t last;  // one past the end

    [[nodiscard]] std::int32_t size() const { return last - first; }
    friend auto operator<=>(const LaneRange&, const LaneRange&) = default;
};

/// First lane of the right child of the tree over `lanes`, which must be at least two.
[[nodiscard]] std::int32_t tree_split(LaneRange lanes);

/// The largest subtrees of the tree over all `lanes` of a step that lie wholly inside `part`,
/// ascending: what a worker that computed `part` may add up before it sends.
[[nodiscard]] std::vector<LaneRange> complete_subtrees(std::int32_t lanes, LaneRange part);

/// By lane: whether it is in all of these sets, and with it all of every set's largest subtree that
/// it is in. For of lanes that are added up as far as they go, only largest subtrees have a sum.
[[nodiscard]] std::vector<bool> common_lanes(const std::vector<std::vector<bool>>& sets);

/// Parent of a subtree in the tree over all `lanes`; the root has none and must not be asked.
[[nodiscard]] LaneRange parent_of(std::int32_t lanes, LaneRange subtree);

}  // namespace rhizome
