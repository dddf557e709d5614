// Learning rate, clipping and AdamW, chunk by chunk: whoever owns a chunk can do its part alone
// (docs/MATHEMATICS.md, Optimizer).
#pragma once

#include "core/layer_table.hpp"
#include "device/device.hpp"
#include "model/optimizer_config.hpp"
#include "model/parameters.hpp"

namespace rhizome::model {

[[nodiscard]] double learning_rate(const OptimizerConfig& config, Step step);

/// What the gradient is multiplied by, given its global norm.
[[nodiscard]] double clip_scale(const OptimizerConfig& config, double norm);

/// Both groups' constants; the group decides `decay`.
[[nodiscard]] device::AdamWStep adamw_step(const OptimizerConfig& config, Step step, double norm,
                                           Decay decay);

/// AdamW's memory of every owned chunk.
struct Moments {
    Moments(device::Device& device, device::Stream& stream, const LayerTable& table);

    TensorSet first;
    TensorSet second;
};

/// Sums of squares of all owned chunks of a step's gradient, in the order of their identity. Ties
/// must have been added already.
[[nodiscard]] std::vector<double> squares_by_chunk(device::Device& device, device::Stream& stream,
                                                   const LayerTable& table,
                                                   const TensorSet& gradient);

}  // namespace rhizome::model
