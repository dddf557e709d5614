// Costs of layers from a file of `rhizome profile`.
#pragma once

#include <string>

#include "schedule/cost_table.hpp"

namespace rhizome::cli {

/// `where` is how messages call the file. They are to be those of `network`, unless it is null.
/// Throws ConfigError.
[[nodiscard]] schedule::CostTable read_cost_table(const std::string& where, const std::string& path,
                                                  const LayerTable* network);

}  // namespace rhizome::cli
