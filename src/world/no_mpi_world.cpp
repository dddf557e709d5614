// In place of the MPI world where there is no Open MPI with ULFM to build it with.
#include <unistd.h>

#include "world/mpi_world.hpp"

namespace rhizome::world {

std::unique_ptr<World> make_mpi_world(const MpiWorldConfig&) {
    throw ConfigError{
        "this process was started by an MPI launcher (the program was built without an Open MPI "
        "with "
        "ULFM), build it with one, or train in one process"};
}

void leave_mpi(ExitCode code) { _exit(static_cast<int>(code)); }

}  // namespace rhizome::world
