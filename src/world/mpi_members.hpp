// Private to the MPI world: who is left on a communicator, agreed on without building a new one.
// A failure that becomes known while a communicator is being built may crash Open MPI 5.0.11, so
// after a loss the members move to a duplicate made before it, and only their list is new.
#pragma once

#include <mpi.h>
// mpi-ext.h needs mpi.h first.
#include <mpi-ext.h>

#include <functional>
#include <optional>
#include <vector>

#include "world/world.hpp"

namespace rhizome::world {

/// One agreement on the communicator in question, with the world's deadline.
using AgreeOnce = std::function<Agreement(std::uint32_t flags)>;

/// Those of `workers`, who are the ranks of `comm`, that all who live take to be alive: the same
/// list for all of them. Acknowledges the others, so that later agreements report only those lost
/// after them. Nothing if an agreement was late.
[[nodiscard]] std::optional<std::vector<WorkerId>> agree_on_members(
    MPI_Comm comm, const std::vector<WorkerId>& workers, const AgreeOnce& agree);

}  // namespace rhizome::world
