#include "world/mpi_start.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "world/backoff.hpp"
#include "world/mpi_duplicates.hpp"
#include "world/world.hpp"

namespace rhizome::world {
namespace {

// The parts of the PMIx interface that are used; its headers do not come with Open MPI.
constexpr int pmix_event_action_complete = -334;
constexpr int pmix_err_lost_connection = -61;
constexpr int pmix_err_comm_failure = -49;
constexpr int pmix_err_unreach = -25;
using PmixComplete = void (*)(int status, void* results, std::size_t count, void* then,
                              void* then_data, void* data);
using PmixHandler = void (*)(std::size_t id, int status, const void* source, void* info,
                             std::size_t infos, void* results, std::size_t count,
                             PmixComplete complete, void* data);
using PmixRegister = int (*)(int* codes, std::size_t codes_count, void* info, std::size_t infos,
                             PmixHandler handler, void* registered, void* data);

void take_note(std::size_t, int, const void*, void*, std::size_t, void*, std::size_t,
               PmixComplete complete, void* data) {
    if (complete == nullptr) return;
    complete(pmix_event_action_complete, nullptr, 0, nullptr, nullptr, data);
}

/// PMIx would end a rank whose launch daemon has gone.
void outlive_the_daemon() {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the way of dlsym
    const auto add_handler =
        reinterpret_cast<PmixRegister>(dlsym(RTLD_DEFAULT, "PMIx_Register_event_handler"));
    static std::array codes{pmix_err_lost_connection, pmix_err_comm_failure, pmix_err_unreach};
    if (add_handler == nullptr ||
        add_handler(codes.data(), codes.size(), nullptr, 0, take_note, nullptr, nullptr) < 0) {
        throw ConfigError{
            "the loss of a node would end this run (no PMIx event handler can be added), use an "
            "Open MPI that `make setup` would choose"};
    }
}

/// Open MPI 5.0.11 loops for ever in MPI_Test (or crashes) when a peer dies to whom it is about to
/// name more memory to write to: in 7 of about 180 deaths in the middle of messages of 1 MiB.
/// Messages that are sent only, and not put, did not: 0 of 380. Who sets the variable knows better.
void send_rather_than_put() {
    ::setenv("OMPI_MCA_btl_tcp_flags", "send,inplace,need-ack,need-csum", 0);
}

void require_fault_tolerance() {
    int* active = nullptr;
    int known = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPIX_FT, static_cast<void*>(&active), &known);
    if (known != 0 && *active != 0) return;
    throw ConfigError{
        "the loss of a worker would end this run (MPI was started without fault tolerance), start "
        "with `rhizome run`, or give mpirun the option --with-ft ulfm"};
}

/// An empty message from everybody to everybody. Every later death then closes a socket to each,
/// and no launcher is needed to tell of it; without this, agreements were seen to wait for ever.
void meet_everybody(const MpiStart& start, Nanoseconds at_most) {
    MPI_Comm comm = start.duplicates.front();
    std::vector<MPI_Request> requests;
    for (std::int32_t peer = 0; peer < start.ranks; ++peer) {
        if (peer == start.rank) continue;
        int result = MPI_Irecv(nullptr, 0, MPI_BYTE, peer, 0, comm, &requests.emplace_back());
        if (result == MPI_SUCCESS) {
            result = MPI_Isend(nullptr, 0, MPI_BYTE, peer, 0, comm, &requests.emplace_back());
        }
        if (result != MPI_SUCCESS) {
            throw UserError{ExitCode::peer_lost, "worker " + std::to_string(peer) +
                                                     " is gone (lost at the start), start again"};
        }
    }
    const SteadyClock clock;
    const Nanoseconds deadline = clock.now() + at_most;
    Backoff backoff;
    for (std::size_t met = 0; met < requests.size();) {
        int done = 0;
        const int result = MPI_Test(&requests[met], &done, MPI_STATUS_IGNORE);
        const Nanoseconds now = clock.now();
        if (result == MPI_SUCCESS && done != 0) {
            ++met;
        } else if (result != MPI_SUCCESS || now >= deadline) {
            const auto index = static_cast<std::int32_t>(met / 2);
            const std::int32_t peer = index < start.rank ? index : index + 1;
            throw UserError{
                ExitCode::peer_lost,
                "worker " + std::to_string(peer) + " cannot be reached (" +
                    (result == MPI_SUCCESS ? "no answer in time" : "lost at the start") +
                    "), see that the network given to MPI connects all nodes"};
        } else {
            backoff.wait(deadline - now);
        }
    }
}

}  // namespace

MpiStart start_mpi(const MpiWorldConfig& config) {
    ENSURE(config.spares >= 0);
    // Else a write to a socket that a dead rank closed ends an innocent one.
    (void)std::signal(SIGPIPE, SIG_IGN);
    send_rather_than_put();
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    ENSURE(provided >= MPI_THREAD_FUNNELED);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (config.survives_losses) require_fault_tolerance();
    outlive_the_daemon();

    int* tag_max = nullptr;
    int known = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&tag_max), &known);
    ENSURE(known != 0 && *tag_max >= World::tag_max);

    MpiStart start;
    MPI_Comm_rank(MPI_COMM_WORLD, &start.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &start.ranks);
    start.duplicates =
        make_duplicates(MPI_COMM_WORLD, 1 + std::min(config.spares, start.ranks - 1));
    if (start.duplicates.empty()) {
        throw UserError{
            ExitCode::peer_lost,
            "the workers did not get together (one was lost at the start), start again"};
    }
    meet_everybody(start, config.meeting_max);
    return start;
}

CommStatus status_of(int result) {
    if (result == MPI_SUCCESS) return CommStatus::ok;
    int kind = MPI_ERR_UNKNOWN;
    MPI_Error_class(result, &kind);
    if (kind == MPIX_ERR_PROC_FAILED || kind == MPIX_ERR_PROC_FAILED_PENDING) {
        return CommStatus::peer_lost;
    }
    if (kind == MPIX_ERR_REVOKED) return CommStatus::revoked;
    ENSURE(kind != MPI_ERR_TRUNCATE && "a receive is as long as what was sent");
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    MPI_Error_string(result, text.data(), &length);
    throw std::runtime_error{"MPI failed: " +
                             std::string{text.data(), static_cast<std::size_t>(length)}};
}

}  // namespace rhizome::world
