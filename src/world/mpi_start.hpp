// Private to the MPI world: from the launch to a communicator on which a loss can be survived. What
// each habit here is good for was found by leaving it out and losing a node: all of them are
// needed.
#pragma once

#include <mpi.h>
// mpi-ext.h needs mpi.h first.
#include <mpi-ext.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "core/error.hpp"
#include "world/mpi_world.hpp"

namespace rhizome::world {

/// Live until the process ends: to free one would need everybody.
struct MpiStart {
    std::int32_t rank = 0;
    std::int32_t ranks = 0;
    /// Of everybody, one for each epoch.
    std::vector<MPI_Comm> duplicates;
};

/// Throws ConfigError and UserError as make_mpi_world().
[[nodiscard]] MpiStart start_mpi(const MpiWorldConfig& config);

/// What a return code says of peers and epoch. Throws std::runtime_error for what nobody foresaw;
/// whoever meets that leaves, and is a lost peer for the others.
[[nodiscard]] CommStatus status_of(int result);

}  // namespace rhizome::world
