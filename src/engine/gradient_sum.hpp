// The gradient of one step, summed in its one order: microbatches ascending within a lane, lanes in
// the tree of core/lane_tree.hpp. Microbatches of different lanes may come in any order; as soon as
// both children of a tree node are complete they become one, so few sets are alive at a time.
// All calls of a step must use one stream.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "core/lane_tree.hpp"
#include "model/parameters.hpp"

namespace rhizome::engine {

class GradientSum {
  public:
    GradientSum(device::Device& device, const LayerTable& table, LaneShape lanes);

    /// How many sets of gradients are alive at most when microbatches come in ascending order: the
    /// lane under way and, to its left, one subtree per binary digit 1 of its number.
    [[nodiscard]] static std::int32_t sets_in_order(LaneShape lanes);
    [[nodiscard]] std::int64_t bytes() const { return bytes_; }

    /// What this microbatch adds its gradients to. Its predecessors in the lane must be done.
    [[nodiscard]] const model::TensorSet& accumulator(device::Stream& stream,
                                                      Microbatch microbatch);
    void done(device::Stream& stream, Microbatch microbatch);

    /// Are all microbatches in?
    [[nodiscard]] bool complete() const { return complete_.contains({0, lanes_.lanes}); }
    /// The step's gradient by use, all lanes added. Only when complete.
    [[nodiscard]] const model::TensorSet& by_use() const;
    /// Adds the gradients of each tied tensor's later uses to that of its owner, in layer order.
    /// Once per step, last.
    void add_ties(device::Stream& stream);
    /// Begins the next step.
    void clear();

  private:
    struct OpenLane {
        std::unique_ptr<model::TensorSet> sum;
        std::int32_t microbatches_done = 0;
    };

    std::unique_ptr<model::TensorSet> take_set(device::Stream& stream);
    void add_subtree(device::Stream& stream, LaneRange lanes,
                     std::unique_ptr<model::TensorSet> sum);

    device::Device& device_;
    const LayerTable& table_;
    std::vector<Tie> ties_;
    LaneShape lanes_;
    std::map<std::int32_t, OpenLane> open_;  // lanes that have begun, by number
    std::map<LaneRange, std::unique_ptr<model::TensorSet>>
        complete_;  // subtrees without a parent yet
    std::vector<std::unique_ptr<model::TensorSet>> free_;
    std::int64_t bytes_ = 0;  // of all sets that were ever needed at once
};

}  // namespace rhizome::engine
