#include "world/mpi_duplicates.hpp"

namespace rhizome::world {

std::vector<MPI_Comm> make_duplicates(MPI_Comm of, std::int32_t count) {
    std::vector<MPI_Comm> made;
    while (static_cast<std::int32_t>(made.size()) < count) {
        MPI_Comm duplicate = MPI_COMM_NULL;
        if (MPI_Comm_dup(of, &duplicate) != MPI_SUCCESS) {
            MPIX_Comm_revoke(of);
            return {};
        }
        MPI_Comm_set_errhandler(duplicate, MPI_ERRORS_RETURN);
        made.push_back(duplicate);
    }
    return made;
}

std::vector<MPI_Comm> make_duplicates_of_living(MPI_Comm of, std::int32_t living,
                                                std::int32_t count) {
    MPI_Comm shrunk = MPI_COMM_NULL;
    if (MPIX_Comm_shrink(of, &shrunk) != MPI_SUCCESS) return {};
    MPI_Comm_set_errhandler(shrunk, MPI_ERRORS_RETURN);
    std::int32_t ranks = 0;
    MPI_Comm_size(shrunk, &ranks);
    if (ranks < living) return {};
    return make_duplicates(shrunk, count);
}

}  // namespace rhizome::world
