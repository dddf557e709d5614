// Private to the MPI world: communicators made in a calm moment, one for each epoch that may be
// opened later. A failure that becomes known while one is being made may crash Open MPI 5.0.11.
#pragma once

#include <mpi.h>
// mpi-ext.h needs mpi.h first.
#include <mpi-ext.h>

#include <cstdint>
#include <vector>

namespace rhizome::world {

/// So many of all ranks of `of`, errors returned; none if somebody was lost: then `of` is revoked,
/// so that nobody waits for who gave up. They live until the process ends: to free one would need
/// everybody.
[[nodiscard]] std::vector<MPI_Comm> make_duplicates(MPI_Comm of, std::int32_t count);

/// So many of those ranks of `of` that live, in their order. None, on some ranks or all, if
/// somebody was lost since the last acknowledgement.
[[nodiscard]] std::vector<MPI_Comm> make_duplicates_of_living(MPI_Comm of, std::int32_t living,
                                                              std::int32_t count);

}  // namespace rhizome::world
