#include "world/process_tree.hpp"

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/text.hpp"

namespace rhizome::world {
namespace {

constexpr Nanoseconds bound_min = std::chrono::milliseconds{10};
constexpr Nanoseconds look_min = std::chrono::milliseconds{1};
constexpr Nanoseconds look_max = std::chrono::seconds{1};

/// What a launcher, a batch system or a terminal sends. Not SIGCONT, which does no harm.
constexpr std::array ignored_signals{SIGTERM, SIGINT,  SIGHUP,  SIGQUIT,
                                     SIGUSR1, SIGUSR2, SIGTSTP, SIGPIPE};

/// From its making on these signals are ignored and SIGCHLD is held back for the watch's
/// sigtimedwait; the rank restores what was before. In this order no moment is left in which a
/// signal could kill.
class Shield {
  public:
    Shield() {
        struct sigaction ignore{};
        ignore.sa_handler = SIG_IGN;
        for (std::size_t i = 0; i < ignored_signals.size(); ++i) {
            ENSURE(sigaction(ignored_signals[i], &ignore, &before_[i]) == 0);
        }
        struct sigaction ordinary{};
        ordinary.sa_handler = SIG_DFL;  // were it ignored, nobody could be waited for
        ENSURE(sigaction(SIGCHLD, &ordinary, &child_before_) == 0);
        sigset_t children;
        sigemptyset(&children);
        sigaddset(&children, SIGCHLD);
        ENSURE(sigprocmask(SIG_BLOCK, &children, &mask_before_) == 0);
    }

    void restore() const {
        for (std::size_t i = 0; i < ignored_signals.size(); ++i) {
            ENSURE(sigaction(ignored_signals[i], &before_[i], nullptr) == 0);
        }
        ENSURE(sigaction(SIGCHLD, &child_before_, nullptr) == 0);
        ENSURE(sigprocmask(SIG_SETMASK, &mask_before_, nullptr) == 0);
    }

  private:
    std::array<struct sigaction, ignored_signals.size()> before_{};
    struct sigaction child_before_{};
    sigset_t mask_before_{};
};

/// Proxy and watch die by the signal that killed the rank, but there is nothing to see in them.
void become(const char* name) {
    prctl(PR_SET_NAME, name);
    prctl(PR_SET_DUMPABLE, 0);
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
}

[[noreturn]] void end_like(int status) {
    if (!WIFSIGNALED(status)) _exit(WEXITSTATUS(status));
    const int number = WTERMSIG(status);
    static_cast<void>(std::signal(number, SIG_DFL));
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, number);
    sigprocmask(SIG_UNBLOCK, &only, nullptr);
    raise(number);
    _exit(128 + number);  // as a shell says it, where a signal cannot end the first process
}

[[noreturn]] void be_proxy(pid_t watch) {
    become("rhizome-proxy");
    int status = 0;
    while (waitpid(watch, &status, 0) < 0) ENSURE(errno == EINTR);
    end_like(status);
}

/// One line, unless it would have to wait: whoever should read it may be gone.
void say(const std::string& text) {
    pollfd output{STDERR_FILENO, POLLOUT, 0};
    if (poll(&output, 1, 0) == 1 && (output.revents & POLLOUT) != 0) {
        log_to(STDERR_FILENO).warn(text);
    }
}

class Watch {
  public:
    Watch(pid_t rank, const WatchBounds& bounds, const Pulse& pulse)
        : rank_{rank},
          bounds_{bounds},
          judgement_{bounds},
          pulse_{pulse},
          last_look_{clock_.now()} {}

    [[noreturn]] void run() {
        while (true) {
            take_news();
            judge();
            wait_for_news();
        }
    }

  private:
    void take_news() {
        int status = 0;
        while (true) {
            const pid_t from = waitpid(rank_, &status, WNOHANG | WUNTRACED | WCONTINUED);
            if (from == 0) return;
            if (from < 0) {
                ENSURE(errno == EINTR);
            } else if (WIFSTOPPED(status)) {
                judgement_.see_stopped();
            } else if (WIFCONTINUED(status)) {
                judgement_.see_continued();
            } else {
                end_like(status);
            }
        }
    }

    void judge() {
        const Nanoseconds now = clock_.now();
        const Nanoseconds passed = now - last_look_;
        last_look_ = now;
        // In this order: whoever is seen to wait no longer has given the beat that goes with it.
        const Nanoseconds patience = pulse_.patience();
        const std::uint64_t beats = pulse_.beats();
        switch (judgement_.look(passed, beats, patience)) {
            case Judgement::Verdict::fine:
                return;
            case Judgement::Verdict::stopped:
                return kill("stopped", bounds_.stopped);
            case Judgement::Verdict::stuck:
                return kill("stuck", bounds_.stuck);
        }
    }

    void kill(const char* what, Nanoseconds bound) {
        if (killed_) return;  // it may take a while, if it is inside the kernel
        killed_ = true;
        ::kill(rank_, SIGKILL);
        const double seconds = std::chrono::duration<double>(bound).count();
        say("process " + std::to_string(rank_) + " was killed (" + what + " for more than " +
            to_text_short(seconds) + " s), the others go on without it if they can");
    }

    void wait_for_news() {
        sigset_t children;
        sigemptyset(&children);
        sigaddset(&children, SIGCHLD);
        const Nanoseconds wait = judgement_.look_interval();
        const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(wait);
        const timespec at_most{seconds.count(), (wait - seconds).count()};
        sigtimedwait(&children, nullptr, &at_most);  // early or late, the loop looks again
    }

    pid_t rank_;
    WatchBounds bounds_;
    Judgement judgement_;
    const Pulse& pulse_;
    SteadyClock clock_;
    Nanoseconds last_look_;
    bool killed_ = false;
};

ConfigError no_process(int error) {
    return ConfigError{std::string{"no further process (the system gives none: "} +
                       std::strerror(error) + "), raise the limit of processes (ulimit -u)"};
}

}  // namespace

std::optional<std::string> find_fault(const WatchBounds& bounds) {
    if (bounds.stopped < bound_min) return "the bound for a stopped rank (below 10 ms)";
    if (bounds.stuck <= bounds.stopped) {
        return "the bound for a stuck rank (not above the one for a stopped rank)";
    }
    return std::nullopt;
}

Nanoseconds Judgement::look_interval() const {
    return std::clamp(std::min(bounds_.stopped, bounds_.stuck) / 8, look_min, look_max);
}

void Judgement::see_stopped() {
    stopped_ = true;
    just_stopped_ = true;
}

void Judgement::see_continued() {
    stopped_ = false;
    stopped_for_ = Nanoseconds{0};
}

Judgement::Verdict Judgement::look(Nanoseconds passed, std::uint64_t beats, Nanoseconds patience) {
    passed = std::min(passed, 2 * look_interval());
    if (stopped_ && !just_stopped_) stopped_for_ += passed;
    just_stopped_ = false;
    silent_for_ = beats == beats_ ? silent_for_ + passed : Nanoseconds{0};
    beats_ = beats;
    if (stopped_for_ > bounds_.stopped) return Verdict::stopped;
    // So written because the sum of bound and patience may be more than there is.
    if (silent_for_ - bounds_.stuck > patience) return Verdict::stuck;
    return Verdict::fine;
}

Pulse::Pulse() {
    void* const memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc{};
    shared_ = new (memory) Shared{};
}

Pulse::~Pulse() { munmap(shared_, sizeof(Shared)); }

std::uint64_t Pulse::beats() const { return shared_->beats.load(std::memory_order_relaxed); }

Nanoseconds Pulse::patience() const {
    return Nanoseconds{shared_->patience_ns.load(std::memory_order_acquire)};
}

Pulse::Waiting::Waiting(Pulse& pulse, Nanoseconds at_most)
    : pulse_{pulse}, before_{pulse.patience().count()} {
    pulse.shared_->patience_ns.store(std::max(before_, std::int64_t{at_most.count()}),
                                     std::memory_order_release);
    pulse.beat();
}

Pulse::Waiting::~Waiting() {
    pulse_.beat();
    pulse_.shared_->patience_ns.store(before_, std::memory_order_release);
}

std::unique_ptr<Pulse> split_into_watched_rank(const WatchBounds& bounds) {
    ENSURE(!find_fault(bounds));
    auto pulse = std::make_unique<Pulse>();
    const Shield shield;
    const pid_t watch_child = fork();
    if (watch_child < 0) {
        const int error = errno;
        shield.restore();
        throw no_process(error);
    }
    if (watch_child > 0) be_proxy(watch_child);

    setsid();
    const pid_t watch = getpid();
    const pid_t rank = fork();
    if (rank < 0) {
        say(no_process(errno).what());
        _exit(static_cast<int>(ExitCode::bad_config));
    }
    if (rank > 0) {
        become("rhizome-watch");
        Watch{rank, bounds, *pulse}.run();
    }
    // A watch that died before the first line is noticed by the second.
    ENSURE(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    if (getppid() != watch) _exit(static_cast<int>(ExitCode::our_fault));
    shield.restore();
    return pulse;
}

}  // namespace rhizome::world
