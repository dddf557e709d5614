// What starts, watches and ends a run, with ranks that train nothing.
//
//   run_stub launch FOLDER GRACE_MS WORD...   makes the folder and launches that command
//   run_stub rank FOLDER FAULT                a rank: agrees on step after step
//   run_stub stop WORD...                     as `rhizome stop`
//
// A rank goes on until FOLDER/enough is there (then the run is done) or the end word. It keeps the
// number of agreed steps in FOLDER/step.RANK. Losses are agreed away, as often as they come. FAULT
// is:
//
//   none
//   deaf     heeds no end word
//   mute     leaves no word of how the run ended
//   linger   rank 1 outlives the end
#include <mpi.h>
#include <dlfcn.h>
// After mpi.h, which it needs.
#include <mpi-ext.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "cli/launch.hpp"
#include "cli/program.hpp"
#include "cli/stop_command.hpp"
#include "core/text.hpp"
#include "world/process_tree.hpp"
#include "world/run_folder.hpp"

namespace rhizome {
namespace {

using namespace std::chrono_literals;

constexpr world::WatchBounds bounds{.stopped = 300ms, .stuck = 60s};
constexpr Nanoseconds wait_max = 60s;
constexpr auto pause_between_steps = 5ms;

// Open MPI 5 ends a rank whose launcher is gone, unless somebody answers PMIx that all is well.
void survive_the_launcher() {
    using Complete = void (*)(int, void*, std::size_t, void*, void*, void*);
    using Answer = void (*)(std::size_t, int, const void*, void*, std::size_t, void*, std::size_t,
                            Complete, void*);
    using Register = int (*)(int*, std::size_t, void*, std::size_t, Answer, void*, void*);
    static int lost[] = {-61, -49, -25};  // connection lost, communication failed, unreachable
    void* const found = dlsym(RTLD_DEFAULT, "PMIx_Register_event_handler");
    ENSURE(found != nullptr);
    const Answer all_is_well = [](std::size_t, int, const void*, void*, std::size_t, void*,
                                  std::size_t, Complete complete, void* data) {
        constexpr int action_complete = -334;
        if (complete != nullptr) complete(action_complete, nullptr, 0, nullptr, nullptr, data);
    };
    reinterpret_cast<Register>(found)(lost, 3, nullptr, 0, all_is_well, nullptr, nullptr);
}

class Rank {
  public:
    Rank(const world::RunFolder& folder, std::string fault, world::Pulse& pulse)
        : folder_{folder}, fault_{std::move(fault)}, pulse_{pulse} {
        int provided = 0;
        MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
        survive_the_launcher();
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Comm_dup(MPI_COMM_WORLD, &world_);
        MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN);
        MPI_Comm_rank(world_, &me_);
        MPI_Comm_size(world_, &ranks_);
        ENSURE(!folder_.record_process("rank." + std::to_string(me_), getpid()));
        // Every death then closes a socket to everybody.
        for (int peer = 0; peer < ranks_; ++peer) {
            if (peer == me_) continue;
            MPI_Sendrecv(nullptr, 0, MPI_BYTE, peer, 1, nullptr, 0, MPI_BYTE, peer, 1, world_,
                         MPI_STATUS_IGNORE);
        }
    }

    [[noreturn]] void run() {
        std::optional<world::Ending> ending;
        for (int step = 1; !ending; ++step) {
            pulse_.beat();
            std::this_thread::sleep_for(pause_between_steps);
            const bool enough = std::filesystem::exists(folder_.path() + "/enough");
            const bool asked = fault_ != "deaf" && folder_.stop_asked();
            const int agreed = agree((enough ? 0 : 0b01) | (asked ? 0 : 0b10));
            write_step(step);
            const std::string after = " after step " + std::to_string(step);
            if ((agreed & 0b01) == 0) ending = world::Ending{ExitCode::done, "done" + after};
            if ((agreed & 0b10) == 0) ending = world::Ending{ExitCode::stopped, "stopped" + after};
        }
        if (fault_ != "mute") ENSURE(!folder_.finish(ending->code, ending->reason).problem);
        static_cast<void>(agree(0));
        while (fault_ == "linger" && me_ == 1) {
            pulse_.beat();
            std::this_thread::sleep_for(pause_between_steps);
        }
        _exit(0);
    }

  private:
    [[nodiscard]] int agree(int flags) {
        const world::Pulse::Waiting waiting{pulse_, wait_max};
        while (true) {
            int agreed = flags;
            if (MPIX_Comm_agree(world_, &agreed) == MPI_SUCCESS) return agreed;
            int acknowledged = 0;
            MPIX_Comm_ack_failed(world_, ranks_, &acknowledged);
        }
    }

    void write_step(int step) const {
        const std::string place = folder_.path() + "/step." + std::to_string(me_);
        std::ofstream{place + ".part"} << step;
        std::filesystem::rename(place + ".part", place);
    }

    const world::RunFolder& folder_;
    std::string fault_;
    world::Pulse& pulse_;
    MPI_Comm world_ = MPI_COMM_NULL;
    int me_ = 0;
    int ranks_ = 0;
};

ExitCode run(const cli::Arguments& arguments, const cli::Environment& environment, const Log& log) {
    const auto at_least = [&arguments](std::size_t count) { ENSURE(arguments.size() >= count); };
    at_least(2);
    if (arguments[0] == "stop") {
        return cli::stop_command(cli::parse_stop_options({arguments.begin() + 1, arguments.end()}),
                                 log);
    }
    at_least(3);
    if (arguments[0] == "launch") {
        const auto folder = world::RunFolder::make(arguments[1]);
        const auto grace = std::chrono::milliseconds{parse_integer(arguments[2]).value_or(0)};
        return cli::launch({.command = {arguments.begin() + 3, arguments.end()},
                            .environment = environment,
                            .grace = grace},
                           folder, log);
    }
    const auto folder = world::RunFolder::open(arguments[1]);
    const auto pulse = world::split_into_watched_rank(bounds);
    Rank{folder, arguments[2], *pulse}.run();
}

}  // namespace
}  // namespace rhizome

int main(int count, char** arguments, char** environment) {
    return rhizome::cli::run_program(count, arguments, environment, rhizome::run);
}
