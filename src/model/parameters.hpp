// Memory for one tensor per parameter, shaped like the table of layers: the parameters themselves,
// gradients, optimizer moments.
#pragma once

#include <vector>

#include "core/layer_table.hpp"
#include "core/run_shape.hpp"
#include "device/device.hpp"
#include "model/network.hpp"

namespace rhizome::model {

/// Does a tied tensor have memory of its own at its second use?
enum class TiedTensors : std::uint8_t {
    shared,   // no: parameters and moments, which are owned once
    separate  // yes: gradients, which are summed per use before they are added
};

/// A set of tensors, one per parameter of some layers, in one piece of device memory. A tied tensor
/// whose owner is in none of these layers has memory at its first use here.
class TensorSet {
  public:
    /// Of all layers.
    TensorSet(device::Device& device, const LayerTable& table, TiedTensors tied);
    /// Of these layers, which must be ascending; a set without tensors has no `whole`.
    TensorSet(device::Device& device, const LayerTable& table, TiedTensors tied,
              std::span<const LayerRange> layers);

    /// Device memory that such a set takes.
    [[nodiscard]] static std::int64_t planned_bytes(const LayerTable& table, TiedTensors tied);
    [[nodiscard]] static std::int64_t planned_bytes(const LayerTable& table, TiedTensors tied,
                                                    std::span<const LayerRange> layers);
    [[nodiscard]] std::int64_t bytes() const { return memory_.bytes(); }

    /// Of one of the set's layers.
    [[nodiscard]] device::Tensor at(TensorRef tensor) const;
    [[nodiscard]] device::Tensor at(const LayerTable& table, ChunkRef chunk) const {
        return at(chunk.tensor).slice(table.first_element_of(chunk), table.elements_of(chunk));
    }
    /// A layer's tensors in the order of its spec; none for layers outside the set.
    [[nodiscard]] std::span<const device::Tensor> of(LayerId layer) const {
        return tensors_[layer.index()];
    }
    /// All of them as one vector, padding between tensors included.
    [[nodiscard]] device::Tensor whole() const { return whole_; }

  private:
    device::Memory memory_;
    device::Tensor whole_;
    std::vector<std::vector<device::Tensor>> tensors_;  // by layer
};

/// An owned parameter's initial values (docs/MATHEMATICS.md, The network), as bytes of its type.
[[nodiscard]] std::vector<std::byte> initial_bytes(const Network& network, std::uint64_t seed,
                                                   TensorRef owned);

/// Writes every owned parameter's initial values.
void initialize(device::Stream& stream, const Network& network, std::uint64_t seed,
                const TensorSet& parameters);

}  // namespace rhizome::model
