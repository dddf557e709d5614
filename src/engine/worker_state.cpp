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

WorkerState::WorkerState(device::Device& device, const LayerTable& table,
                         std::span<const LayerRange> held, const OwnershipMap& owners,
                         WorkerId self)
    : table_{table},
      held_{held.begin(), held.end()},
      parameters_{device, table, TiedTensors::shared, held} {
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
        owned_.push_back(state);
    }
}

void WorkerState::initialize(device::Stream& stream, const model::Network& network,
                             std::uint64_t seed) {
    for (const OwnedState& owned : owned_) {
        stream.zero(owned.first_moment);
        stream.zero(owned.second_moment);
    }
    for (const TensorRef tensor : table_.owned()) {
        const auto use = use_in(table_, held_, tensor);
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

void WorkerState::load(device::Stream& stream, ValueSource& source,
                       const std::function<void()>& pulse) {
    std::vector<std::byte> bytes;
    const auto fill = [&](ChunkRef chunk, state::Value value, const Tensor& to) {
        bytes.resize(static_cast<std::size_t>(to.bytes()));
        source.read(chunk, value, bytes);
        stream.upload(to, bytes);
        stream.synchronize();  // before the next one takes its place
        pulse();
    };
    // Value by value, as files have them.
    auto owned = owned_.begin();
    for (const TensorRef tensor : table_.owned()) {
        const auto end = std::find_if(owned, owned_.end(), [&](const OwnedState& each) {
            return each.chunk.tensor != tensor;
        });
        for (std::int32_t c = 0; c < table_.chunks_of(tensor); ++c) {
            if (const auto here = held({tensor, c})) {
                fill({tensor, c}, state::Value::parameter, *here);
            }
        }
        const bool has_holder = use_in(table_, held_, tensor).has_value();
        for (auto each = owned; each != end && !has_holder; ++each) {
            fill(each->chunk, state::Value::parameter, each->parameter);
        }
        for (auto each = owned; each != end; ++each) {
            fill(each->chunk, state::Value::first_moment, each->first_moment);
        }
        for (auto each = owned; each != end; ++each) {
            fill(each->chunk, state::Value::second_moment, each->second_moment);
        }
        owned = end;
    }
}

std::int64_t WorkerState::planned_bytes(const model::Network& network,
                                        std::span<const LayerRange> held,
                                        const OwnershipMap& owners, WorkerId self) {
    const LayerTable& table = network.table();
    return TensorSet::planned_bytes(table, TiedTensors::shared, held) +
           device::Layout{chunk_specs(table, held, owners, self)}.bytes;
}

const OwnedState* WorkerState::find_owned(ChunkRef chunk) const {
    const auto found = std::lower_bound(
        owned_.begin(), owned_.end(), chunk,
        [](const OwnedState& each, const ChunkRef& wanted) { return each.chunk < wanted; });
    return found != owned_.end() && found->chunk == chunk ? &*found : nullptr;
}

std::optional<Tensor> WorkerState::held(ChunkRef chunk) const {
    const auto use = use_in(table_, held_, chunk.tensor);
    if (!use) return std::nullopt;
    return slice_of(table_, parameters_.at(*use), chunk);
}

}  // namespace rhizome::engine
