// The world of an MPI launch, on Open MPI with ULFM. One communicator, a duplicate of everybody;
// duplicates to move to after a loss are made at the start and in calm moments, since building one
// while losses arrive may crash Open MPI 5.0.11.
//
// Only the thread that made the world calls MPI (MPI_THREAD_FUNNELED), and messages move along
// only in its calls. A second thread that calls MPI gains nothing worth having, and agreements came
// out wrong with it: docs/MPI.md has the numbers.
#pragma once

#include <memory>

#include "world/process_tree.hpp"
#include "world/world.hpp"

namespace rhizome::world {

struct MpiWorldConfig {
    /// Told of every wait. Must outlive the world.
    Pulse& pulse;
    /// Epochs that can be opened before a renewal, at most; fewer ranks need fewer.
    std::int32_t spares = 31;
    /// Until everybody has met everybody. MPI_Init and the making of communicators cannot be given
    /// up from inside: the watch bounds them.
    Nanoseconds meeting_max{60'000'000'000};
    /// A longer message travels in pieces, since MPI counts bytes in an int. The same everywhere.
    std::size_t piece_bytes = std::size_t{1} << 30;
    /// False to measure what it costs that a loss is survived: MPI may have no fault tolerance.
    bool survives_losses = true;
};

/// Starts MPI; once in a process. Worker i is rank i. Throws ConfigError where MPI would not
/// survive a loss, and UserError when somebody is lost or missing before all have met. Whoever
/// called this, with whatever end, ends the process by leave_mpi().
///
/// A message on its way when its epoch is revoked ends once MPI has let go of its bytes, with
/// `revoked` or with ok: after poll() has told the end, nobody writes there. The bytes of a
/// message that has not ended may be written by any later call, of a later world of this process
/// too. After a missed deadline of an agreement the worker can only leave.
[[nodiscard]] std::unique_ptr<World> make_mpi_world(const MpiWorldConfig& config);

/// Ends the process without the goodbye of MPI_Finalize, which would wait for the dead. Whatever
/// has to be on disk or with a peer must be there already.
[[noreturn]] void leave_mpi(ExitCode code);

}  // namespace rhizome::world
