// The gradient of some layers over some lanes of a step, summed in its one order: microbatches
// ascending within a lane, lanes in the tree of core/lane_tree.hpp. Microbatches of different lanes
// may come in any order; as soon as both children of a tree node are complete they become one, so
// few sets are alive at a time. All calls of a step must use one stream.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "core/lane_tree.hpp"
#include "model/parameters.hpp"

namespace rhizome::engine {

class GradientSum {
  public:
    /// Of these layers and the lanes `part` of a step; whatever can be added within the part is.
    GradientSum(device::Device& device, const LayerTable& table, std::span<const LayerRange> layers,
                LaneShape lanes, LaneRange part);

    /// How many sets of gradients are alive at most when microbatches come in ascending order: the
    /// lane under way and the subtrees to its left that have no parent yet.
    [[nodiscard]] static std::int32_t sets_in_order(LaneShape lanes, LaneRange part);
    /// Memory for that many sets, ahead of their use.
    void reserve(std::int32_t sets);
    [[nodiscard]] std::int64_t bytes() const { return bytes_; }

    /// What this microbatch adds its gradients to. Its predecessors in the lane must be done.
    [[nodiscard]] const model::TensorSet& accumulator(device::Stream& stream,
                                                      Microbatch microbatch);
    void done(device::Stream& stream, Microbatch microbatch);

    /// The gradient by use of a largest subtree within the part, all its lanes added. Only when all
    /// of its microbatches are in.
    [[nodiscard]] const model::TensorSet& of(LaneRange subtree) const;
    [[nodiscard]] bool complete(LaneRange subtree) const { return complete_.contains(subtree); }
    /// Begins the next step.
    void clear();

    // --- after a loss in the middle of a step ---

    /// By lane of the step: whether all of its microbatches are in.
    [[nodiscard]] std::vector<bool> lanes_done() const;
    /// Frees what holds no complete subtree.
    void keep_complete();
    /// Takes the subtrees of these lanes from a sum of the same layers, which had added them up as
    /// far as they went.
    void take(GradientSum& from, std::span<const Lane> lanes);

  private:
    struct OpenLane {
        std::unique_ptr<model::TensorSet> sum;
        std::int32_t microbatches_done = 0;
    };

    std::unique_ptr<model::TensorSet> make_set();
    std::unique_ptr<model::TensorSet> take_set(device::Stream& stream);
    void add_subtree(device::Stream& stream, LaneRange lanes,
                     std::unique_ptr<model::TensorSet> sum);

    device::Device& device_;
    const LayerTable& table_;
    std::vector<LayerRange> layers_;
    LaneShape lanes_;
    LaneRange part_;
    std::map<std::int32_t, OpenLane> open_;  // lanes that have begun, by number
    std::map<LaneRange, std::unique_ptr<model::TensorSet>>
        complete_;  // subtrees without a parent yet
    std::vector<std::unique_ptr<model::TensorSet>> free_;
    std::int64_t bytes_ = 0;  // of all sets that were ever needed at once
};

}  // namespace rhizome::engine
