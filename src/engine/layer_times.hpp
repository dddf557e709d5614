// How long the layers of a network take on a device, each measured on its own: no more memory is
// needed than one layer takes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/clock.hpp"
#include "model/network.hpp"

namespace rhizome::engine {

/// Of one microbatch; an update is that of all parameters which the layer owns, their part in the
/// gradient's norm included. Medians of several passes, after one that nobody counts.
struct LayerTimes {
    double forward_s = 0;
    double backward_input_s = 0;
    double backward_weight_s = 0;
    double update_s = 0;
};

struct MeasuringConfig {
    std::span<const TensorSpec> fields;  // of one sample, as a data set has them
    std::int32_t rows = 1;               // samples in a microbatch
    std::int64_t token_limit = 1;        // every whole number of a field is below this
    double seconds = 1;                  // for a layer, if that is enough for a few passes
};

/// Device memory that measuring takes at most, besides the workspace of one operation.
[[nodiscard]] std::int64_t planned_measuring_bytes(const model::Network& network,
                                                   const MeasuringConfig& config);

/// By layer. Layers that do the same work, as blocks do, are measured once.
[[nodiscard]] std::vector<LayerTimes> measure_layers(device::Device& device,
                                                     const model::Network& network,
                                                     const MeasuringConfig& config,
                                                     const Clock& clock);

}  // namespace rhizome::engine
