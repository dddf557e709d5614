#include "cli/run_words.hpp"

#include <array>
#include <atomic>
#include <csignal>

#include "cli/ignored_signals.hpp"

namespace rhizome::cli {
namespace {

constexpr std::array numbers{SIGINT, SIGTERM, SIGHUP, SIGUSR1};

/// What handlers write; nothing else reaches them.
struct Heard {
    std::atomic<bool> stop{false};
    std::atomic<bool> save{false};
    std::array<struct sigaction, numbers.size()> before{};
};
static_assert(std::atomic<bool>::is_always_lock_free);  // so a handler may use it

Heard& heard() {
    static constinit Heard only;  // made before any handler could ask for it
    return only;
}

extern "C" void rhizome_hear_stop(int /*signal*/) { heard().stop.store(true); }
extern "C" void rhizome_hear_save(int /*signal*/) { heard().save.store(true); }

struct sigaction handler_of(int number) {
    struct sigaction action{};
    if (was_ignored_at_start(number)) {
        action.sa_handler = SIG_IGN;
    } else {
        action.sa_handler = number == SIGUSR1 ? rhizome_hear_save : rhizome_hear_stop;
        action.sa_flags = SA_RESTART;
        // As usual from the second time on: for a step that takes too long.
        if (number == SIGINT) action.sa_flags |= static_cast<int>(SA_RESETHAND);
    }
    sigemptyset(&action.sa_mask);
    return action;
}

}  // namespace

void warn_without_lock(const world::RunFolder& folder, const Log& log) {
    if (!folder.lock_problem()) return;
    log.warn("run folder " + folder.path() + " cannot be locked (" +
             folder.lock_problem().message() + "), so nobody can tell whether another run uses it");
}

void record(const world::RunFolder& folder, const std::string& name, pid_t pid, const Log& log) {
    if (const std::error_code problem = folder.record_process(name, pid)) {
        log.warn(name + " could not be written to " + folder.path() + " (" + problem.message() +
                 "), so nobody can end it by force");
    }
}

ExitCode with_last_word(const world::RunFolder& folder, const Log& log,
                        const std::function<ExitCode()>& train) {
    ExitCode code{};
    try {
        code = train();
    } catch (const UserError& error) {
        const std::string text{error.what()};
        // Without text somebody else has the word.
        if (!text.empty()) static_cast<void>(folder.finish(error.code(), text));
        throw;
    }
    const auto ending = folder.finished();
    if (!ending || ending->code == ExitCode::done) return code;
    if (ending->code == ExitCode::stopped) {
        log.info("the run has ended: " + ending->reason);
    } else {
        log.error(ending->reason);
    }
    return code;
}

SignalWords::SignalWords(const world::RunFolder& folder, const Log& log)
    : folder_{folder}, log_{log} {
    heard().stop.store(false);
    heard().save.store(false);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        const struct sigaction action = handler_of(numbers.at(i));
        ENSURE(sigaction(numbers.at(i), &action, &heard().before.at(i)) == 0);
    }
}

SignalWords::~SignalWords() {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        ENSURE(sigaction(numbers.at(i), &heard().before.at(i), nullptr) == 0);
    }
}

bool SignalWords::stop_asked() {
    if (heard().stop.load() && !stop_heard_) {
        stop_heard_ = true;
        // For everybody else who looks there; this run ends in any case.
        if (const auto problem = folder_.ask_to_stop()) {
            log_.warn("the end word cannot be written to " + folder_.path() + " (" +
                      problem.message() + ")");
        }
        log_.info("the run ends after this step; interrupt again to kill it");
    }
    return stop_heard_ || folder_.stop_asked();
}

bool SignalWords::save_asked() {
    const bool by_signal = heard().save.exchange(false);
    const bool by_word = folder_.take_save_word();
    return by_signal || by_word;
}

}  // namespace rhizome::cli
