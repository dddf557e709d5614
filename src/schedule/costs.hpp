// What instructions cost, in seconds and bytes: measured, estimated from the table of layers, or
// set equal for schedules in the abstract.
#pragma once

#include <cstdint>
#include <vector>

#include "core/layer_table.hpp"
#include "core/ownership_map.hpp"
#include "schedule/instruction.hpp"

namespace rhizome::schedule {

/// Of one microbatch through one layer. Seconds are positive.
struct LayerCost {
    double forward_s;
    double backward_input_s;
    double backward_weight_s;
    std::int64_t wire_bytes = 0;      // crossing a cut behind the layer
    std::int64_t saved_bytes = 0;     // from forward until the weight part
    std::int64_t deferred_bytes = 0;  // from the input part until the weight part

    friend bool operator==(const LayerCost&, const LayerCost&) = default;
};

struct Costs {
    std::vector<LayerCost> layers;
    // A message of n bytes arrives latency + n / rate after it was sent; those between the same two
    // workers in the same direction follow one another.
    double link_latency_s = 0;
    double link_bytes_per_s = 0;  // 0: no limit
    double agreement_s = 0;       // of commit
    double update_s_per_element = 0;

    [[nodiscard]] double compute_s(Kind kind, LayerRange layers_of_stage) const;
    [[nodiscard]] double transfer_s(std::int64_t bytes) const;
};

/// One second for each direction of each layer (input and weight part), nothing for the rest.
[[nodiscard]] Costs equal_costs(std::int32_t layers);

/// From the table's formulas: a device of that many FLOP/s, links of that many bytes per second.
[[nodiscard]] Costs estimated_costs(const LayerTable& table, double flops_per_s,
                                    double link_bytes_per_s, double link_latency_s);

}  // namespace rhizome::schedule
