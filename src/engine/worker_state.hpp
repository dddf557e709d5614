// What a worker keeps from step to step: the parameters of the layers that it computes, and of the
// chunks that it owns parameters and moments, whether it computes with them or not.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/ownership_map.hpp"
#include "model/network.hpp"
#include "model/parameters.hpp"
#include "state/facts.hpp"

namespace rhizome::engine {

/// A chunk that this worker owns.
struct OwnedState {
    std::size_t place;  // in the ownership map
    ChunkRef chunk;
    device::Tensor parameter;  // where the worker's layers read it, if they do
    device::Tensor first_moment;
    device::Tensor second_moment;
};

/// Where a state's values come from.
class ValueSource {
  public:
    virtual ~ValueSource() = default;
    /// Of an owned chunk, into exactly so many bytes.
    virtual void read(ChunkRef chunk, state::Value value, std::span<std::byte> to) = 0;
};

class WorkerState {
  public:
    /// Memory without content. `held` are the layers computed here, ascending, maybe none.
    WorkerState(device::Device& device, const LayerTable& table, std::span<const LayerRange> held,
                const OwnershipMap& owners, WorkerId self);

    /// With the initial state.
    void initialize(device::Stream& stream, const model::Network& network, std::uint64_t seed);
    /// With values from elsewhere. Calls `pulse` after every chunk. Throws what `source` throws.
    void load(device::Stream& stream, ValueSource& source, const std::function<void()>& pulse);

    /// Device memory that it takes.
    [[nodiscard]] static std::int64_t planned_bytes(const model::Network& network,
                                                    std::span<const LayerRange> held,
                                                    const OwnershipMap& owners, WorkerId self);

    /// Those computed here, ascending.
    [[nodiscard]] const std::vector<LayerRange>& layers() const { return held_; }
    /// Of the layers computed here.
    [[nodiscard]] const model::TensorSet& parameters() const { return parameters_; }
    /// Where a chunk is read by the worker's layers; nothing if they do not use it.
    [[nodiscard]] std::optional<device::Tensor> held(ChunkRef chunk) const;
    /// Ascending by identity.
    [[nodiscard]] const std::vector<OwnedState>& owned() const { return owned_; }
    /// Null if it is not owned here.
    [[nodiscard]] const OwnedState* find_owned(ChunkRef chunk) const;

  private:
    const LayerTable& table_;
    std::vector<LayerRange> held_;
    model::TensorSet parameters_;
    device::Memory chunks_;  // moments, and parameters that no layer here reads
    std::vector<OwnedState> owned_;
};

}  // namespace rhizome::engine
