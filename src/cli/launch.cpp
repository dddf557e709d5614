#include "cli/launch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <optional>

#include "cli/ignored_signals.hpp"
#include "world/process_table.hpp"

namespace rhizome::cli {
namespace {

constexpr int look_ms = 50;                                 // at the folder
constexpr Nanoseconds kill_max = std::chrono::seconds{10};  // a process inside the kernel dies late

constexpr std::array ends{SIGINT, SIGTERM, SIGHUP};

/// Signals as something to read, so that nothing is ever done inside a handler.
class Signals {
  public:
    Signals() {
        sigset_t wanted;
        sigemptyset(&wanted);
        for (const int number : ends) {
            if (was_ignored_at_start(number)) {
                static_cast<void>(std::signal(number, SIG_IGN));
            } else {
                sigaddset(&wanted, number);
            }
        }
        sigaddset(&wanted, SIGCHLD);
        sigaddset(&wanted, SIGUSR1);
        static_cast<void>(std::signal(SIGCHLD, SIG_DFL));
        ENSURE(sigprocmask(SIG_BLOCK, &wanted, &before_) == 0);
        descriptor_ = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
        ENSURE(descriptor_ >= 0);
    }
    ~Signals() { ::close(descriptor_); }
    Signals(const Signals&) = delete;
    Signals& operator=(const Signals&) = delete;

    /// For a child between fork and exec: signals as they were given to this program.
    void release() const {
        static_cast<void>(std::signal(SIGPIPE, SIG_DFL));
        sigprocmask(SIG_SETMASK, &before_, nullptr);
    }

    /// The next one within that time, if there is one.
    [[nodiscard]] std::optional<int> next(int at_most_ms) const {
        pollfd wait{descriptor_, POLLIN, 0};
        signalfd_siginfo signal{};
        if (poll(&wait, 1, at_most_ms) != 1) return std::nullopt;
        if (read(descriptor_, &signal, sizeof signal) != sizeof signal) return std::nullopt;
        return static_cast<int>(signal.ssi_signo);
    }

  private:
    sigset_t before_{};
    int descriptor_;
};

ConfigError no_launcher(const std::string& mpirun, int error) {
    return ConfigError{"mpirun " + visible(mpirun) + " (cannot be started: " +
                       std::strerror(error) + "), name one by --mpirun or RHIZOME_MPIRUN"};
}

std::string how_it_ended(int status) {
    return WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                               : "exit code " + std::to_string(WEXITSTATUS(status));
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    return pointers;
}

// Until the first rank has shown itself: an mpirun that starts none is not waited for.
constexpr Nanoseconds start_max = std::chrono::minutes{10};

class Launcher {
  public:
    Launcher(const world::RunFolder& folder, Nanoseconds grace, const Signals& signals,
             const Log& log)
        : folder_{folder}, grace_{grace}, log_{log}, signals_{signals} {}

    void start(const LaunchPlan& plan);
    [[nodiscard]] ExitCode stay();
    [[nodiscard]] bool end_asked() const { return asked_; }

  private:
    void hear(int signal);
    void pass_save_word_on() const;
    void reap();
    void tell_that_mpirun_is_gone();
    [[nodiscard]] bool somebody_lives() const;
    [[nodiscard]] bool ranks_are_gone();
    [[nodiscard]] bool nobody_opens_an_epoch();
    void kill_everybody();
    [[nodiscard]] ExitCode killed();
    [[nodiscard]] ExitCode ended(const world::Ending& ending);
    [[nodiscard]] ExitCode unfinished() const;

    const world::RunFolder& folder_;
    Nanoseconds grace_;
    const Log& log_;
    const Signals& signals_;
    SteadyClock clock_;
    std::string host_ = world::host_name();
    pid_t mpirun_ = 0;
    std::optional<int> mpirun_status_;      // once it has ended
    std::map<pid_t, std::uint64_t> ranks_;  // of this host: when they started
    Nanoseconds started_at_ = clock_.now();
    std::optional<Nanoseconds> left_at_;  // when a rank was seen to have left for want of others
    bool told_of_mpirun_ = false;
    bool children_ = true;
    bool asked_ = false;
    bool kill_asked_ = false;
};

void Launcher::start(const LaunchPlan& plan) {
    std::vector<std::string> words = plan.command;
    std::vector<std::string> variables;
    for (const auto& [name, value] : plan.environment) {
        variables.push_back(name);
        variables.back().append("=").append(value);
    }
    const std::vector<char*> arguments = pointers_to(words);
    const std::vector<char*> environment = pointers_to(variables);
    std::array<int, 2> failure{};  // closed by exec; otherwise it brings errno
    ENSURE(pipe2(failure.data(), O_CLOEXEC) == 0);
    mpirun_ = fork();
    if (mpirun_ == 0) {
        setsid();
        signals_.release();
        const int nothing = open("/dev/null", O_RDONLY);  // the terminal is not in this session
        dup2(nothing, STDIN_FILENO);
        execvpe(arguments[0], arguments.data(), environment.data());
        const int error = errno;
        static_cast<void>(!write(failure[1], &error, sizeof error));
        _exit(127);
    }
    int error = mpirun_ < 0 ? errno : 0;
    ::close(failure[1]);
    if (error == 0) static_cast<void>(!read(failure[0], &error, sizeof error));
    ::close(failure[0]);
    if (error != 0) throw no_launcher(plan.command.front(), error);
    if (const auto problem = folder_.record_process("mpirun", mpirun_)) {
        log_.warn("mpirun is not recorded in the run's folder (" + problem.message() +
                  "), `rhizome stop` will not find it");
    }
}

ExitCode Launcher::stay() {
    std::optional<world::Ending> ending;
    Nanoseconds last_busy = clock_.now();  // when there was still a run
    while (true) {
        for (int wait_ms = look_ms; const auto signal = signals_.next(wait_ms); wait_ms = 0) {
            hear(*signal);
        }
        if (kill_asked_) return killed();
        // In this order: whoever is gone has left its word before.
        reap();
        const bool alive = somebody_lives();
        if (!ending) ending = folder_.finished();
        if (!ending) {
            if (!alive) return unfinished();
            tell_that_mpirun_is_gone();
            if (nobody_opens_an_epoch()) continue;
            if (!ranks_are_gone()) {
                last_busy = clock_.now();
                continue;
            }
        }
        if (alive && clock_.now() - last_busy < grace_) continue;
        if (ending) return ended(*ending);
        // Open MPI's mpirun was seen to get stuck when its ranks had left it.
        kill_everybody();
        return unfinished();
    }
}

void Launcher::hear(int signal) {
    if (signal == SIGCHLD) return;  // all it had to do is done: it woke us
    if (signal == SIGUSR1) return pass_save_word_on();
    if (asked_) {
        kill_asked_ = kill_asked_ || signal == SIGINT;
        return;
    }
    asked_ = true;
    if (const auto problem = folder_.ask_to_stop()) {
        log_.error("the end word cannot be written to " + folder_.path() + " (" +
                   problem.message() + "), interrupt again to kill the run on this host");
        return;
    }
    log_.info("the run ends after this step; interrupt again to kill it");
}

void Launcher::pass_save_word_on() const {
    if (const auto problem = folder_.ask_to_save()) {
        log_.error("the save word cannot be written to " + folder_.path() + " (" +
                   problem.message() + "), no state is saved because of it");
        return;
    }
    log_.info("a state is saved after this step");
}

void Launcher::reap() {
    int status = 0;
    pid_t child = 0;
    while ((child = waitpid(-1, &status, WNOHANG)) > 0) {
        if (child == mpirun_) mpirun_status_ = status;
    }
    children_ = child == 0;
}

void Launcher::tell_that_mpirun_is_gone() {
    if (!mpirun_status_ || told_of_mpirun_) return;
    told_of_mpirun_ = true;
    log_.warn("mpirun is gone (" + how_it_ended(*mpirun_status_) +
              "), the run goes on without it; what the ranks print is lost");
}

/// A batch system starts processes that are nobody's descendants here, hence the second question.
bool Launcher::somebody_lives() const {
    if (children_) return true;
    const auto living = folder_.living();
    return std::any_of(living.begin(), living.end(),
                       [](const world::Recorded& process) { return process.pid != getpid(); });
}

/// There were ranks, and none is left anywhere: what still lives does not belong to a run.
bool Launcher::ranks_are_gone() {
    // Also those that came and went between two looks.
    for (const world::Recorded& process : folder_.recorded()) {
        const bool rank = process.name.starts_with("rank.");
        if (rank && process.host == host_) ranks_[process.pid] = process.started;
    }
    // From memory, since the folder may have gone while they live.
    const bool lives = std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) {
        const auto found = world::find_process(rank.first);
        return found && found->started == rank.second;
    });
    if (ranks_.empty()) return clock_.now() - started_at_ > start_max;
    return !lives && folder_.other_hosts().empty();
}

/// Somebody has left because the others did not answer, and they have not gone on without it: who
/// still lives is stuck. Then the run has ended, and a marker says so.
bool Launcher::nobody_opens_an_epoch() {
    const auto reason = folder_.left_behind();
    if (!reason) {
        left_at_.reset();
        return false;
    }
    const Nanoseconds now = clock_.now();
    if (!left_at_) left_at_ = now;
    if (now - *left_at_ < grace_) return false;
    return !folder_.finish(ExitCode::peer_lost, "no worker could go on (" + *reason + ")").problem;
}

/// Whoever is killed may have left children behind, which are ours then: again, until none is left.
void Launcher::kill_everybody() {
    const Nanoseconds deadline = clock_.now() + kill_max;
    for (reap(); somebody_lives() && clock_.now() < deadline; reap()) {
        for (const world::Process& process : world::find_descendants()) {
            world::kill_process(process.pid, process.started);
        }
        for (const world::Recorded& process : folder_.living()) {
            if (process.pid != getpid()) world::kill_process(process.pid, process.started);
        }
        static_cast<void>(signals_.next(look_ms));
    }
}

ExitCode Launcher::killed() {
    // Before the deed, so that nobody takes it for an accident.
    static_cast<void>(folder_.finish(ExitCode::stopped, "killed on request"));
    kill_everybody();
    if (const std::string hosts = folder_.other_hosts(); !hosts.empty()) {
        log_.warn("on " + hosts + " nobody was killed, ranks there end with their step");
    }
    return ended(folder_.finished().value_or(
        world::Ending{ExitCode::stopped, "killed on request, and its folder is out of reach"}));
}

ExitCode Launcher::ended(const world::Ending& ending) {
    if (somebody_lives()) {
        log_.warn("processes of the run outlive its end (for more than " +
                  to_text_short(std::chrono::duration<double>(grace_).count()) +
                  " s), they are killed");
        kill_everybody();
    }
    // Ranks leave this to their launcher: what they print last may be lost on its way.
    if (ending.code != ExitCode::done && ending.code != ExitCode::stopped) {
        log_.error(ending.reason);
    } else if (ending.code == ExitCode::stopped || told_of_mpirun_) {
        log_.info("the run has ended: " + ending.reason);
    }
    return ending.code;
}

ExitCode Launcher::unfinished() const {
    const std::string hosts = folder_.other_hosts();
    log_.error("the run left no word of how it ended (its processes " +
               (hosts.empty() ? "" : "on this host, not known of " + hosts + ", ") +
               "are gone; mpirun: " +
               (mpirun_status_ ? how_it_ended(*mpirun_status_) : std::string{"unknown"}) +
               "), see what they printed, and start it again");
    return ExitCode::unfinished;
}

}  // namespace

struct Launches::Lasting {
    const Log& log;
    Signals signals{};
    bool end_asked = false;
};

Launches::Launches(const Log& log) : lasting_{new Lasting{log}} {
    // Whatever the run starts is ours to wait for, however often its parents die.
    ENSURE(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
}

Launches::~Launches() = default;

ExitCode Launches::launch(const LaunchPlan& plan, const world::RunFolder& folder) {
    if (const auto problem = folder.record_process("launcher", getpid())) {
        throw ConfigError{"run folder " + folder.path() +
                          " (cannot be written: " + problem.message() + "), name another one"};
    }
    Launcher launcher{folder, plan.grace, lasting_->signals, lasting_->log};
    launcher.start(plan);
    lasting_->log.info("run folder " + folder.path());
    const ExitCode code = launcher.stay();
    lasting_->end_asked = lasting_->end_asked || launcher.end_asked();
    return code;
}

bool Launches::end_asked() {
    while (const auto signal = lasting_->signals.next(0)) {
        lasting_->end_asked =
            lasting_->end_asked || std::find(ends.begin(), ends.end(), *signal) != ends.end();
    }
    return lasting_->end_asked;
}

}  // namespace rhizome::cli
