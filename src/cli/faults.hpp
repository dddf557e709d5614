// Makes the faults of a configuration happen to this process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/fault_plan.hpp"
#include "world/run_folder.hpp"
#include "world/world.hpp"

namespace rhizome::cli {

/// Empty if there are none. A fault that is named by its place strikes in a run's first start only;
/// those at random go on. Before a fault strikes, FOLDER/faults/WORKER-N says where and how, so
/// that a test whose fault never fired can tell. All references must outlive it.
[[nodiscard]] engine::Probe probe_of(const std::string& faults, std::int32_t start,
                                     const world::World& world,
                                     const std::optional<world::RunFolder>& folder);

}  // namespace rhizome::cli
