// Costs that were measured, as text. Blanks part words; `#` begins a comment; empty lines count for
// nothing. After the first line comes one per layer, in the order of the network:
//
//   rhizome costs 1
//   embedding 0.0012 1e-07 0.0009 0.051 39383808 3145728 0 3145728
//
// which are its name, forward_s, backward_input_s, backward_weight_s, update_s, parameters,
// wire_bytes, saved_bytes and deferred_bytes. Seconds and bytes are those of LayerCost; an update
// is that of all parameters that the layer owns, once per step. What is written is read back as it
// was.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/costs.hpp"

namespace rhizome::schedule {

/// Seconds that something takes are no fewer: a clock may be too coarse, but no cost is nothing.
inline constexpr double least_seconds = 1e-9;

struct MeasuredLayer {
    std::string name;
    LayerCost cost;
    double update_s = 0;
    std::int64_t parameters = 0;  // that the layer owns

    friend bool operator==(const MeasuredLayer&, const MeasuredLayer&) = default;
};
using CostTable = std::vector<MeasuredLayer>;  // by layer

/// `notes` become comments, one line each.
[[nodiscard]] std::string to_text(const CostTable& table, const std::vector<std::string>& notes);

/// Throws ConfigError that names the line: problem (reason), hint. There is at least one layer.
[[nodiscard]] CostTable parse_cost_table(std::string_view text);

/// Links and agreement are left as they are in Costs{}.
[[nodiscard]] Costs costs_of(const CostTable& table);

/// Why these cannot be costs of that network, if so: another name, or other sizes.
[[nodiscard]] std::optional<std::string> find_misfit(const CostTable& table,
                                                     const LayerTable& network);

/// The layers as far as costs tell of them: each with one parameter. Which of them are tied they do
/// not say.
[[nodiscard]] LayerTable layers_of(const CostTable& table);

}  // namespace rhizome::schedule
