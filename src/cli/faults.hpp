// Makes the faults of a configuration happen to this process.
#pragma once

#include <optional>
#include <string>

#include "engine/fault_plan.hpp"
#include "world/run_folder.hpp"
#include "world/world.hpp"

namespace rhizome::cli {

/// Empty if there are none. Before a fault strikes, FOLDER/faults/WORKER-N says where and how, so
/// that a test whose fault never fired can tell. All references must outlive it.
[[nodiscard]] engine::Probe probe_of(const std::string& faults, const world::World& world,
                                     const std::optional<world::RunFolder>& folder);

}  // namespace rhizome::cli
