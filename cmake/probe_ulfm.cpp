// Compiled and linked, never run: can this MPI lose a rank and go on?
#include <mpi.h>
#include <mpi-ext.h>

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm survivors = MPI_COMM_NULL;
    int flag = 1;
    MPIX_Comm_revoke(MPI_COMM_WORLD);
    MPIX_Comm_agree(MPI_COMM_WORLD, &flag);
    MPIX_Comm_shrink(MPI_COMM_WORLD, &survivors);
    return MPI_Finalize();
}
