#include "engine/parts.hpp"

#include <algorithm>
#include <numeric>

namespace rhizome::engine {
namespace {

device::Tensor tensor_of(std::vector<double>& numbers) {
    return {reinterpret_cast<std::byte*>(numbers.data()),
            Shape{static_cast<std::int64_t>(numbers.size())}, DType::f64};
}

}  // namespace

Parts::Share Parts::share_of(const RunShape& shape, const OwnershipMap* owners, WorkerId worker) {
    Share share;
    for (std::size_t p = 0; p < shape.pipelines.size(); ++p) {
        if (shape.pipelines[p].stages.back().worker != worker) continue;
        const PipelineId pipeline{static_cast<std::int32_t>(p)};
        share.first = shape.first_microbatch(pipeline);
        share.last = shape.last_microbatch(pipeline);
    }
    if (owners != nullptr) {
        for (std::size_t i = 0; i < owners->chunks.size(); ++i) {
            if (owners->chunks[i].owners.front() == worker) share.chunks.push_back(i);
        }
    }
    share.numbers.resize(static_cast<std::size_t>(share.last - share.first) + share.chunks.size());
    return share;
}

Parts::Parts(const RunShape& shape, const OwnershipMap* owners, WorkerId self)
    : mine_{share_of(shape, owners, self)},
      losses_(static_cast<std::size_t>(shape.lanes.microbatches)),
      squares_(owners == nullptr ? 0 : owners->chunks.size()) {
    for (const WorkerId worker : shape.workers) {
        if (worker == self) continue;
        if (Share share = share_of(shape, owners, worker); !share.numbers.empty()) {
            others_.emplace(worker, std::move(share));
        }
    }
}

void Parts::set_mine(std::span<const double> losses, std::span<const double> squares) {
    ENSURE(losses.size() + squares.size() == mine_.numbers.size());
    ENSURE(squares.size() == mine_.chunks.size());
    const auto rest = std::copy(losses.begin(), losses.end(), mine_.numbers.begin());
    std::copy(squares.begin(), squares.end(), rest);
    spread(mine_);
}

device::Tensor Parts::outgoing() { return tensor_of(mine_.numbers); }

device::Tensor Parts::incoming(WorkerId sender) { return tensor_of(others_.at(sender).numbers); }

void Parts::take(WorkerId sender) { spread(others_.at(sender)); }

void Parts::spread(const Share& share) {
    std::size_t next = 0;
    for (std::int32_t m = share.first; m < share.last; ++m) {
        losses_[static_cast<std::size_t>(m)] = share.numbers[next++];
    }
    for (const std::size_t chunk : share.chunks) squares_[chunk] = share.numbers[next++];
}

double Parts::loss() const { return std::accumulate(losses_.begin(), losses_.end(), 0.0); }

double Parts::squares() const { return std::accumulate(squares_.begin(), squares_.end(), 0.0); }

}  // namespace rhizome::engine
