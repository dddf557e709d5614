// ulfm_survives_test FOLDER: can this MPI lose a rank and go on? Three ranks start, rank 0 kills
// itself, and the other two revoke, agree, shrink and count themselves.
//
// Nobody's exit code says how it went (mpirun's least of all): a survivor that reached the end
// leaves FOLDER/survivor.RANK, and the victim FOLDER/victim, so that a test whose fault never fired
// fails. The ranks leave with _exit, since the goodbye of MPI_Finalize may wait for the dead.
#include <mpi.h>
#include <mpi-ext.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace {

constexpr int ranks = 3;
constexpr int victim = 0;
constexpr std::chrono::seconds deadline{30};

void require(bool condition, const std::string& what) {
    if (condition) return;
    std::fprintf(stderr, "ulfm_survives_test: %s\n", what.c_str());
    _exit(1);
}

int error_class(int code) {
    int result = 0;
    MPI_Error_class(code, &result);
    return result;
}

// An agreement or a shrink cannot be given up from inside: whoever is late leaves.
void leave_at_the_deadline() {
    std::thread{[] {
        std::this_thread::sleep_for(deadline);
        std::fprintf(stderr, "ulfm_survives_test: not finished within the deadline\n");
        _exit(2);
    }}.detach();
}

// Each death then closes a socket to every survivor, and nobody depends on the launcher's word.
void connect_all(MPI_Comm world, int me) {
    for (int peer = 0; peer < ranks; ++peer) {
        if (peer == me) continue;
        const int result = MPI_Sendrecv(nullptr, 0, MPI_BYTE, peer, 1, nullptr, 0, MPI_BYTE, peer,
                                        1, world, MPI_STATUS_IGNORE);
        require(result == MPI_SUCCESS, "no connection");
    }
    require(MPI_Barrier(world) == MPI_SUCCESS, "no barrier before the loss");
}

// Rank 1 waits for the victim and is told of its death. Rank 2 waits for rank 1, which is well and
// sends nothing: only the revoke ends that wait.
void notice(MPI_Comm world, int me) {
    int nothing = 0;
    const int awaited = me == 1 ? victim : 1;
    const int result = MPI_Recv(&nothing, 1, MPI_INT, awaited, 2, world, MPI_STATUS_IGNORE);
    require(result != MPI_SUCCESS, "a message that nobody sent");
    require(error_class(result) == (me == 1 ? MPIX_ERR_PROC_FAILED : MPIX_ERR_REVOKED),
            "unexpected error class " + std::to_string(error_class(result)));
    MPIX_Comm_revoke(world);
}

void go_on(MPI_Comm world, int me, const std::filesystem::path& folder) {
    int flags = me == 1 ? 0b110 : 0b011;
    const int agreed = MPIX_Comm_agree(world, &flags);
    require(error_class(agreed) == MPIX_ERR_PROC_FAILED, "the agreement did not report the loss");
    require(flags == 0b010, "the agreement is not the AND of the survivors' flags");

    MPI_Comm survivors = MPI_COMM_NULL;
    require(MPIX_Comm_shrink(world, &survivors) == MPI_SUCCESS, "no shrink");
    MPI_Comm_set_errhandler(survivors, MPI_ERRORS_RETURN);
    int left = 0;
    MPI_Comm_size(survivors, &left);
    require(left == ranks - 1, std::to_string(left) + " ranks left");
    int sum = 0;
    require(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, survivors) == MPI_SUCCESS, "no sum");
    require(sum == 1 + 2, "the sum over the survivors is " + std::to_string(sum));

    std::ofstream{folder / ("survivor." + std::to_string(me))} << left << '\n';
    int fine = 1;
    require(MPIX_Comm_agree(survivors, &fine) == MPI_SUCCESS && fine == 1, "no last agreement");
}

}  // namespace

int main(int argc, char** argv) {
    require(argc == 2, "usage: ulfm_survives_test FOLDER");
    leave_at_the_deadline();
    std::signal(SIGPIPE, SIG_IGN);  // else a write to the dead rank's socket kills an innocent one
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    require(provided == MPI_THREAD_MULTIPLE, "MPI without MPI_THREAD_MULTIPLE");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm world = MPI_COMM_NULL;
    require(MPI_Comm_dup(MPI_COMM_WORLD, &world) == MPI_SUCCESS, "no duplicate of the world");
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    int me = 0;
    int size = 0;
    MPI_Comm_rank(world, &me);
    MPI_Comm_size(world, &size);
    require(size == ranks, "wants three ranks");
    connect_all(world, me);

    const std::filesystem::path folder{argv[1]};
    if (me == victim) {
        std::ofstream{folder / "victim"} << getpid() << '\n';
        std::raise(SIGKILL);
    }
    notice(world, me);
    go_on(world, me, folder);
    _exit(0);
}
