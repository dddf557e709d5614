// What starts, watches and ends a run, with ranks that train nothing.
//
//   run_stub launch FOLDER GRACE_MS WORD...   makes the folder and launches that command, in which
//                                             the word RUN becomes the run's name
//   run_stub rank FOLDER RUN FAULT            a rank: agrees on step after step
//   run_stub alone FOLDER FAULT               a run of one process, without MPI
//   run_stub stop WORD...                     as `rhizome stop`
//   run_stub save WORD...                     as `rhizome save`
//
// A rank goes on until FOLDER/enough is there (then the run is done) or the end word. It keeps the
// number of agreed steps in FOLDER/step.RANK. Rank 0 hears the save word and then makes a folder
// FOLDER/states/step-STEPS. Losses are agreed away, as often as they come. FAULT is:
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

#include <algorithm>
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
#include "cli/run_words.hpp"
#include "cli/save_command.hpp"
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

void write_step(const world::RunFolder& folder, int rank, int step) {
    const std::string place = folder.path() + "/step." + std::to_string(rank);
    std::ofstream{place + ".part"} << step;
    std::filesystem::rename(place + ".part", place);
}

void save_state(const world::RunFolder& folder, int step) {
    const std::string digits = std::to_string(step);
    std::filesystem::create_directories(folder.path() + "/states/step-" +
                                        std::string(8 - digits.size(), '0') + digits);
}

bool has_enough(const world::RunFolder& folder) {
    return std::filesystem::exists(folder.path() + "/enough");
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
            const bool enough = has_enough(folder_);
            const bool asked = fault_ != "deaf" && folder_.stop_asked();
            const int agreed = agree((enough ? 0 : 0b01) | (asked ? 0 : 0b10));
            if (me_ == 0 && folder_.take_save_word()) save_state(folder_, step);
            write_step(folder_, me_, step);
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

    const world::RunFolder& folder_;
    std::string fault_;
    world::Pulse& pulse_;
    MPI_Comm world_ = MPI_COMM_NULL;
    int me_ = 0;
    int ranks_ = 0;
};

ExitCode run_alone(const world::RunFolder& folder, const std::string& fault, const Log& log) {
    cli::record(folder, "rank.0", getpid(), log);
    cli::SignalWords words{folder, log};
    return cli::with_last_word(folder, log, [&] {
        for (int step = 1;; ++step) {
            std::this_thread::sleep_for(pause_between_steps);
            if (words.save_asked()) save_state(folder, step);
            write_step(folder, 0, step);
            const bool asked = words.stop_asked() && fault != "deaf";
            if (!asked && !has_enough(folder)) continue;
            const ExitCode code = asked ? ExitCode::stopped : ExitCode::done;
            const std::string how = asked ? "stopped" : "done";
            ENSURE(folder.finish(code, how + " after step " + std::to_string(step)).mine);
            return code;
        }
    });
}

ExitCode run(const cli::Arguments& arguments, const cli::Environment& environment, const Log& log) {
    const auto at_least = [&arguments](std::size_t count) { ENSURE(arguments.size() >= count); };
    at_least(2);
    if (arguments[0] == "stop") {
        return cli::stop_command(cli::parse_stop_options({arguments.begin() + 1, arguments.end()}),
                                 log);
    }
    if (arguments[0] == "save") {
        return cli::save_command(cli::parse_save_options({arguments.begin() + 1, arguments.end()}),
                                 log);
    }
    at_least(3);
    if (arguments[0] == "alone") {
        return run_alone(world::RunFolder::make(arguments[1]), arguments[2], log);
    }
    if (arguments[0] == "launch") {
        const auto folder = world::RunFolder::make(arguments[1]);
        const auto grace = std::chrono::milliseconds{parse_integer(arguments[2]).value_or(0)};
        cli::Arguments command{arguments.begin() + 3, arguments.end()};
        std::replace(command.begin(), command.end(), std::string{"RUN"}, folder.run());
        return cli::Launches{log}.launch(
            {.command = command, .environment = environment, .grace = grace}, folder);
    }
    at_least(4);
    const auto pulse = world::split_into_watched_rank(bounds);
    const auto folder = world::RunFolder::join(arguments[1], arguments[2]);
    Rank{folder, arguments[3], *pulse}.run();
}

}  // namespace
}  // namespace rhizome

int main(int count, char** arguments, char** environment) {
    return rhizome::cli::run_program(count, arguments, environment, rhizome::run);
}
