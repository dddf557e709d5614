#include "engine/worker_state.hpp"

#include <algorithm>

namespace rhizome::engine {

using device::Tensor;
using model::TensorSet;
using model::TiedTensors;

namespace {

/// The use of an owned tensor by some of these layers.
std::optional<TensorRef> use_in(const LayerTable& table, std::span<const LayerRange> layers,
                                TensorRef owned) {
    for (const TensorRef use : table.uses_of(owned)) {
        if (std::any_of(layers.begin(), layers.end(),
                        [&](const LayerRange& range) { return range.contains(use.layer); })) {
            return use;
        }
    }
    return std::nullopt;
}

/// Of the memory beside the held parameters: two moments a chunk, and its parameters if need be.
std::vector<TensorSpec> chunk_specs(const LayerTable& table, std::span<const LayerRange> held,
                                    const OwnershipMap& owners, WorkerId self) {
    std::vector<TensorSpec> specs;
    for (const OwnedChunk& each : owners.chunks) {
        if (!each.is_owned_by(self)) continue;
        const TensorSpec spec{"chunk", Shape{table.elements_of(each.chunk)},
                              table.at(each.chunk.tensor).spec.dtype};
        specs.insert(specs.end(), use_in(table, held, each.chunk.tensor) ? 2 : 3, spec);
    }
    return specs;
}

Tensor slice_of(const LayerTable& table, const Tensor& tensor, ChunkRef chunk) {
    return tensor.slice(table.first_element_of(chunk), table.elements_of(chunk));
}

}  // namespace

WorkerState::WorkerState(device::Device& device, device::Stream& stream,
                         const model::Network& network, std::span<const LayerRange> held,
                         const OwnershipMap& owners, WorkerId self, std::uint64_t seed)
    : table_{network.table()},
      held_{held.begin(), held.end()},
      parameters_{device, table_, TiedTensors::shared, held} {
    const std::vector<TensorSpec> specs = chunk_specs(table_, held, owners, self);
    const device::Layout layout{specs};
    chunks_ = device.allocate(layout.bytes);
    std::size_t next = 0;
    const auto take = [&] {
        const Tensor tensor = chunks_.at(layout.offsets[next], specs[next]);
        ++next;
        return tensor;
    };
    for (std::size_t i = 0; i < owners.chunks.size(); ++i) {
        const ChunkRef chunk = owners.chunks[i].chunk;
        if (!owners.chunks[i].is_owned_by(self)) continue;
        OwnedState state{.place = i,
                         .chunk = chunk,
                         .parameter = {},
                         .first_moment = take(),
                         .second_moment = take()};
        const auto here = this->held(chunk);
        state.parameter = here ? *here : take();
        stream.zero(state.first_moment);
        stream.zero(state.second_moment);
        owned_.push_back(state);
    }
    for (const TensorRef tensor : table_.owned()) {
        const auto use = use_in(table_, held, tensor);
        const auto first = std::find_if(owned_.begin(), owned_.end(), [&](const OwnedState& each) {
            return each.chunk.tensor == tensor;
        });
        if (!use && first == owned_.end()) continue;
        const auto bytes = model::initial_bytes(network, seed, tensor);
        if (use) {
            stream.upload(parameters_.at(*use), bytes);
        } else {
            for (auto each = first; each != owned_.end() && each->chunk.tensor == tensor; ++each) {
                const auto element = static_cast<std::size_t>(bytes_of(each->parameter.dtype));
                const auto begin =
                    static_cast<std::size_t>(table_.first_element_of(each->chunk)) * element;
                stream.upload(each->parameter,
                              std::span{bytes}.subspan(
                                  begin, static_cast<std::size_t>(each->parameter.bytes())));
            }
        }
        stream.synchronize();  // before `bytes` goes
    }
}

std::int64_t WorkerState::planned_bytes(const model::Network& network,
                                        std::span<const LayerRange> held,
                                        const OwnershipMap& owners, WorkerId self) {
    const LayerTable& table = network.table();
    return TensorSet::planned_bytes(table, TiedTensors::shared, held) +
           device::Layout{chunk_specs(table, held, owners, self)}.bytes;
}

std::optional<Tensor> WorkerState::held(ChunkRef chunk) const {
    const auto use = use_in(table_, held_, chunk.tensor);
    if (!use) return std::nullopt;
    return slice_of(table_, parameters_.at(*use), chunk);
}

}  // namespace rhizome::engine
