// From a configuration and the workers that are there to what each of them will do.
#pragma once

#include "cli/run_config.hpp"
#include "core/layer_table.hpp"
#include "engine/run_plan.hpp"
#include "schedule/costs.hpp"

namespace rhizome::cli {

/// Workers that the pipelines of a configuration need.
[[nodiscard]] std::int32_t workers_needed(const RunConfig& config);

/// Parameter, gradient and two moments.
[[nodiscard]] std::int64_t state_bytes_per_element(const RunConfig& config);

/// What was measured, where the configuration names such costs, and otherwise what the accelerator
/// that it describes would take; links are those that it describes. Throws ConfigError.
[[nodiscard]] schedule::Costs costs_of(const RunConfig& config, const LayerTable& table);

/// The same on every worker. Throws ConfigError: fewer workers than places, more stages than
/// layers, more pipelines than lanes, a cut that does not fit.
[[nodiscard]] engine::RunPlan make_layout(const RunConfig& config, const LayerTable& table,
                                          const schedule::Costs& costs,
                                          const std::vector<WorkerId>& workers,
                                          std::int32_t evaluation_microbatches);

/// Lines for people: pipelines with their layers and lanes, owners, spares.
[[nodiscard]] std::string layout_text(const RunConfig& config, const engine::RunPlan& plan,
                                      const schedule::Costs& costs, const LayerTable& table);

}  // namespace rhizome::cli
