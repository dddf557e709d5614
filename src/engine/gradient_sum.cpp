#include "engine/gradient_sum.hpp"

#include <algorithm>

namespace rhizome::engine {

using model::TensorSet;

GradientSum::GradientSum(device::Device& device, const LayerTable& table,
                         std::span<const LayerRange> layers, LaneShape lanes, LaneRange part)
    : device_{device},
      table_{table},
      layers_{layers.begin(), layers.end()},
      lanes_{lanes},
      part_{part} {
    ENSURE(0 <= part.first && part.first < part.last && part.last <= lanes.lanes);
}

std::int32_t GradientSum::sets_in_order(LaneShape lanes, LaneRange part) {
    std::size_t sets = 1;
    for (std::int32_t lane = part.first + 1; lane < part.last; ++lane) {
        sets = std::max(sets, 1 + complete_subtrees(lanes.lanes, {part.first, lane}).size());
    }
    return static_cast<std::int32_t>(std::max(sets, complete_subtrees(lanes.lanes, part).size()));
}

void GradientSum::reserve(std::int32_t sets) {
    while (static_cast<std::int32_t>(free_.size()) < sets) free_.push_back(make_set());
}

std::unique_ptr<TensorSet> GradientSum::make_set() {
    auto set = std::make_unique<TensorSet>(device_, table_, model::TiedTensors::separate, layers_);
    bytes_ += set->bytes();
    return set;
}

std::unique_ptr<TensorSet> GradientSum::take_set(device::Stream& stream) {
    std::unique_ptr<TensorSet> set;
    if (free_.empty()) {
        set = make_set();
    } else {
        set = std::move(free_.back());
        free_.pop_back();
    }
    if (set->bytes() > 0) stream.zero(set->whole());
    return set;
}

const TensorSet& GradientSum::accumulator(device::Stream& stream, Microbatch microbatch) {
    const Lane lane = lanes_.lane_of(microbatch);
    ENSURE(part_.first <= lane.value() && lane.value() < part_.last);
    OpenLane& open = open_[lane.value()];
    ENSURE(microbatch.value() == lanes_.first_of(lane).value() + open.microbatches_done);
    if (!open.sum) {
        ENSURE(open.microbatches_done == 0);
        open.sum = take_set(stream);
    }
    return *open.sum;
}

void GradientSum::done(device::Stream& stream, Microbatch microbatch) {
    const Lane lane = lanes_.lane_of(microbatch);
    const auto open = open_.find(lane.value());
    ENSURE(open != open_.end() && open->second.sum != nullptr);
    if (++open->second.microbatches_done < lanes_.length()) return;
    // The lane stays in open_, without its set, so that no microbatch can come a second time.
    add_subtree(stream, {lane.value(), lane.value() + 1}, std::move(open->second.sum));
}

void GradientSum::add_subtree(device::Stream& stream, LaneRange lanes,
                              std::unique_ptr<TensorSet> sum) {
    while (lanes.size() < lanes_.lanes) {
        const LaneRange parent = parent_of(lanes_.lanes, lanes);
        const bool is_left = lanes.first == parent.first;
        const LaneRange sibling =
            is_left ? LaneRange{lanes.last, parent.last} : LaneRange{parent.first, lanes.first};
        auto other = complete_.extract(sibling);
        if (other.empty()) break;
        std::unique_ptr<TensorSet>& left = is_left ? sum : other.mapped();
        std::unique_ptr<TensorSet>& right = is_left ? other.mapped() : sum;
        if (left->bytes() > 0) stream.add(left->whole(), left->whole(), right->whole());
        std::unique_ptr<TensorSet> added = std::move(left);
        free_.push_back(std::move(right));
        sum = std::move(added);
        lanes = parent;
    }
    complete_.emplace(lanes, std::move(sum));
}

const TensorSet& GradientSum::of(LaneRange subtree) const {
    const auto found = complete_.find(subtree);
    ENSURE(found != complete_.end());
    return *found->second;
}

std::vector<bool> GradientSum::lanes_done() const {
    std::vector<bool> done(static_cast<std::size_t>(lanes_.lanes));
    for (const auto& [subtree, set] : complete_) {
        std::fill(done.begin() + subtree.first, done.begin() + subtree.last, true);
    }
    return done;
}

void GradientSum::keep_complete() {
    open_.clear();
    free_.clear();
}

void GradientSum::take(GradientSum& from, std::span<const Lane> lanes) {
    for (const Lane lane : lanes) {
        if (lane.value() < part_.first || part_.last <= lane.value()) continue;
        open_[lane.value()].microbatches_done = lanes_.length();  // none of it can come again
        const auto found =
            std::find_if(from.complete_.begin(), from.complete_.end(),
                         [lane](const auto& each) { return each.first.first == lane.value(); });
        if (found == from.complete_.end()) continue;  // its subtree begins with another lane
        complete_.insert(from.complete_.extract(found));
        if (!free_.empty()) free_.pop_back();
    }
}

void GradientSum::clear() {
    for (auto& [lanes, set] : complete_) free_.push_back(std::move(set));
    for (auto& [lane, open] : open_) {
        if (open.sum) free_.push_back(std::move(open.sum));
    }
    complete_.clear();
    open_.clear();
}

}  // namespace rhizome::engine
