// The network as plain data: what each layer is called, holds, receives, sends and costs. Rooms
// that plan, schedule or store read this table and never learn what kind of network it describes.
//
// (layer, tensor, chunk) is the identity of state everywhere: in memory, in messages, in files. It
// knows no stage and no rank.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "core/shape.hpp"

namespace rhizome {

/// One parameter tensor of one layer.
struct TensorRef {
    LayerId layer;
    std::int32_t tensor;  // place in the layer's list of parameters
    friend auto operator<=>(const TensorRef&, const TensorRef&) = default;
};

/// A fixed piece of a tensor: elements [first, first + elements).
struct ChunkRef {
    TensorRef tensor;
    std::int32_t chunk;
    friend auto operator<=>(const ChunkRef&, const ChunkRef&) = default;
};

enum class Decay : std::uint8_t { none, weight };  // AdamW's two groups

struct ParameterFacts {
    TensorSpec spec;
    Decay decay = Decay::none;
    /// Set when these are another layer's weights used a second time. They are owned, updated,
    /// stored and counted once, there; only gradient and copy exist here as well.
    std::optional<TensorRef> tied_to{};
};

/// Floating-point operations and bytes of one microbatch; from formulas here, measured later.
struct LayerCosts {
    double forward_flops = 0;
    double backward_input_flops = 0;
    double backward_weight_flops = 0;
    std::int64_t saved_bytes = 0;     // kept from forward until the weight part of backward
    std::int64_t deferred_bytes = 0;  // kept from the input part to the weight part of backward
    std::int64_t output_bytes = 0;    // all that crosses a cut behind this layer
};

struct LayerFacts {
    std::string name;
    std::vector<ParameterFacts> parameters;
    std::vector<TensorSpec> outputs;  // all wires that cross a cut behind this layer
    std::vector<std::string> fields;  // what it reads from the microbatch's data
    LayerCosts costs;
};

/// Elements of the parameters that the layer owns.
[[nodiscard]] std::int64_t owned_elements(const LayerFacts& layer);

/// A second use of an owned tensor.
struct Tie {
    TensorRef owner;
    TensorRef use;
    friend auto operator<=>(const Tie&, const Tie&) = default;
};

struct LayerTable {
    std::vector<LayerFacts> layers;
    std::int64_t chunk_elements;

    [[nodiscard]] const ParameterFacts& at(TensorRef tensor) const;
    /// "block.3/attention.weight": unique in the network, the same for every layout.
    [[nodiscard]] std::string name_of(TensorRef tensor) const;
    /// Where the tensor is owned: itself, unless it is tied.
    [[nodiscard]] TensorRef owner_of(TensorRef tensor) const;
    /// Every use of an owned tensor, ascending: itself and whatever is tied to it.
    [[nodiscard]] std::vector<TensorRef> uses_of(TensorRef owned) const;
    /// All ties, ascending by use.
    [[nodiscard]] std::vector<Tie> ties() const;
    /// All owned tensors in the order of their identity.
    [[nodiscard]] std::vector<TensorRef> owned() const;

    static constexpr std::int64_t chunks_max = INT32_MAX;  // of one tensor
    [[nodiscard]] std::int32_t chunks_of(TensorRef tensor) const;
    [[nodiscard]] std::int64_t first_element_of(ChunkRef chunk) const;
    [[nodiscard]] std::int64_t elements_of(ChunkRef chunk) const;
    /// Each parameter once, tied ones where they are owned.
    [[nodiscard]] std::int64_t parameters() const;
};

}  // namespace rhizome
