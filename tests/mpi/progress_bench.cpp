// progress_bench MODE [TURNS]: who should drive MPI while a worker computes?
//
// A ring: in each turn every rank gives a message to the next one, takes one from the one before,
// and computes meanwhile, in a loop that makes no MPI calls. The modes:
//
//   between         MPI is called in slices between pieces of the computation, and at its end
//   thread          a second thread calls MPI all the time and sleeps between (THREAD_MULTIPLE)
//   compute-thread  the computation has a thread of its own, and the first one waits inside MPI
//
// Computation is counted in processor time, so that its share of a crowded machine is fair. A line
// of the table gives the turn's time as a multiple of the best possible one (the longer of
// computation and of transfer alone), and the processor time that a rank burns besides computing.
//
// Not a test. Start it with the options that the ring is to be measured with:
//   mpirun <options> -n 2 progress_bench between
#include <mpi.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "world/backoff.hpp"

namespace {

using Microseconds = std::chrono::microseconds;

constexpr std::array computations_ms{1, 5, 20};
constexpr std::array message_kib{64, 1024, 8192};
constexpr std::array backoffs_us{20, 100, 500, 0};
constexpr Microseconds own_backoff{0};
constexpr std::array thread_pauses_us{0, 50, 200, 1000};
constexpr std::array slices{1, 4, 16};

double seconds_of(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void compute(double seconds) {
    const double end = seconds_of(CLOCK_THREAD_CPUTIME_ID) + seconds;
    volatile double sum = 1;
    while (seconds_of(CLOCK_THREAD_CPUTIME_ID) < end) {
        for (int i = 0; i < 1000; ++i) sum = sum * 1.0001 + 0.5;
    }
}

/// Polls, yields, then sleeps twice as long each time up to a cap; without one, as the world does.
class Backoff {
  public:
    explicit Backoff(Microseconds cap) : cap_{cap} {}
    void wait() {
        if (cap_ == own_backoff) return own_.wait(std::chrono::seconds{1});
        if (++looks_ <= 32) return;
        if (looks_ <= 64) {
            sched_yield();
            return;
        }
        std::this_thread::sleep_for(pause_);
        pause_ = std::min(2 * pause_, cap_);
    }

  private:
    Microseconds cap_;
    Microseconds pause_{1};
    int looks_ = 0;
    rhizome::world::Backoff own_;
};

struct Ring {
    int rank = 0;
    int ranks = 0;
    std::vector<char> out;
    std::vector<char> in;
    std::array<MPI_Request, 2> requests{};

    void begin(int bytes) {
        const int before = (rank + ranks - 1) % ranks;
        MPI_Irecv(in.data(), bytes, MPI_BYTE, before, 1, MPI_COMM_WORLD, &requests[0]);
        const int after = (rank + 1) % ranks;
        MPI_Isend(out.data(), bytes, MPI_BYTE, after, 1, MPI_COMM_WORLD, &requests[1]);
    }
    bool done() {
        int flag = 0;
        MPI_Testall(2, requests.data(), &flag, MPI_STATUSES_IGNORE);
        return flag != 0;
    }
    void finish(Microseconds cap) {
        for (Backoff backoff{cap}; !done();) backoff.wait();
    }
};

/// Hands one computation after another to a thread.
class ComputeThread {
  public:
    void start(double seconds) {
        seconds_ = seconds;
        busy_ = true;
        busy_.notify_one();
    }
    [[nodiscard]] bool busy() const { return busy_; }
    ~ComputeThread() { start(-1); }

  private:
    void run() {
        while (true) {
            busy_.wait(false);
            if (seconds_ < 0) return;
            compute(seconds_);
            busy_ = false;
        }
    }
    std::atomic<bool> busy_ = false;
    double seconds_ = 0;
    std::jthread thread_{[this] { run(); }};
};

struct Measured {
    double turn_ms = 0;
    double cpu_ms = 0;  // of one rank in one turn
};

/// The slowest rank's time; the mean rank's processor time.
Measured measure(int turns, const std::function<void()>& turn) {
    turn();
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = seconds_of(CLOCK_MONOTONIC);
    const double cpu_start = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < turns; ++i) turn();
    double time = seconds_of(CLOCK_MONOTONIC) - start;
    double cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu_start;
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &cpu, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return {1e3 * time / turns, 1e3 * cpu / ranks / turns};
}

std::string name_of(Microseconds cap) {
    return cap == own_backoff ? "own back-off" : "back-off " + std::to_string(cap.count());
}

/// One way to spend a turn, by name.
struct Way {
    std::string name;
    std::function<void(int bytes, double seconds)> turn;
};

std::vector<Way> ways_between(Ring& ring) {
    std::vector<Way> ways;
    for (const int parts : slices) {
        for (const int cap : backoffs_us) {
            if (parts > 1 && Microseconds{cap} != own_backoff) continue;
            ways.push_back({std::to_string(parts) + " slices, " + name_of(Microseconds{cap}),
                            [&ring, parts, cap](int bytes, double seconds) {
                                ring.begin(bytes);
                                for (int part = 0; part < parts; ++part) {
                                    compute(seconds / parts);
                                    (void)ring.done();
                                }
                                ring.finish(Microseconds{cap});
                            }});
        }
    }
    return ways;
}

std::vector<Way> ways_thread(Ring& ring, std::atomic<int>& pause_us) {
    std::vector<Way> ways;
    for (const int pause : thread_pauses_us) {
        ways.push_back({"thread, pause " + std::to_string(pause),
                        [&ring, &pause_us, pause](int bytes, double seconds) {
                            pause_us = pause;
                            ring.begin(bytes);
                            compute(seconds);
                            ring.finish(own_backoff);
                        }});
    }
    return ways;
}

std::vector<Way> ways_compute_thread(Ring& ring, ComputeThread& thread) {
    std::vector<Way> ways;
    for (const int cap : backoffs_us) {
        ways.push_back({"compute thread, " + name_of(Microseconds{cap}),
                        [&ring, &thread, cap](int bytes, double seconds) {
                            ring.begin(bytes);
                            thread.start(seconds);
                            Backoff backoff{Microseconds{cap}};
                            bool done = false;
                            while (true) {
                                done = done || ring.done();
                                if (done && !thread.busy()) break;
                                backoff.wait();
                            }
                        }});
    }
    return ways;
}

void table(Ring& ring, const std::vector<Way>& ways, int turns) {
    const double crowd = std::max(
        1.0, static_cast<double>(ring.ranks) / static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN)));
    for (const int kib : message_kib) {
        const int bytes = kib * 1024;
        const double alone = measure(turns, [&] {
                                 ring.begin(bytes);
                                 ring.finish(own_backoff);
                             }).turn_ms;
        for (const int ms : computations_ms) {
            for (const Way& way : ways) {
                const auto [turn_ms, cpu_ms] = measure(turns, [&] { way.turn(bytes, 1e-3 * ms); });
                const double best = std::max(crowd * ms, alone);
                if (ring.rank == 0) {
                    std::printf(
                        "%5d KiB  alone %6.2f ms  compute %2d ms  %-28s turn %7.2f ms = "
                        "%.2f x best, %6.2f ms of CPU besides\n",
                        kib, alone, ms, way.name.c_str(), turn_ms, turn_ms / best, cpu_ms - ms);
                    std::fflush(stdout);
                }
            }
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::string mode = argc > 1 ? argv[1] : "between";
    const int turns = argc > 2 ? std::atoi(argv[2]) : 20;
    int provided = 0;
    const int level = mode == "thread" ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED;
    MPI_Init_thread(&argc, &argv, level, &provided);
    Ring ring;
    MPI_Comm_rank(MPI_COMM_WORLD, &ring.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ring.ranks);
    ring.out.resize(std::size_t{1024} * message_kib.back());
    ring.in.resize(ring.out.size());
    if (mode == "thread") {
        std::atomic<int> pause_us = thread_pauses_us.back();
        MPI_Comm nobody = MPI_COMM_NULL;
        MPI_Comm_dup(MPI_COMM_SELF, &nobody);
        const std::jthread progress{[&](const std::stop_token& stop) {
            while (!stop.stop_requested()) {
                int flag = 0;
                MPI_Iprobe(0, 0, nobody, &flag, MPI_STATUS_IGNORE);
                if (const int pause = pause_us; pause > 0) {
                    std::this_thread::sleep_for(Microseconds{pause});
                }
            }
        }};
        table(ring, ways_thread(ring, pause_us), turns);
    } else if (mode == "compute-thread") {
        ComputeThread thread;
        table(ring, ways_compute_thread(ring, thread), turns);
    } else {
        table(ring, ways_between(ring), turns);
    }
    MPI_Finalize();
}
