#include "cli/stop_command.hpp"

#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "cli/values.hpp"
#include "world/process_table.hpp"
#include "world/run_folder.hpp"

namespace rhizome::cli {
namespace {

constexpr Nanoseconds look = std::chrono::milliseconds{50};
constexpr Nanoseconds kill_max = std::chrono::seconds{10};  // a process inside the kernel dies late
constexpr RealRange seconds_range{"in (0, 1e6]", [](double x) { return x > 0 && x <= 1e6; }};

Nanoseconds read_seconds(const std::string& text) {
    double seconds = 0;
    if (const auto problem = read_real(text, seconds_range, seconds)) {
        throw ConfigError{"--within=" + shown(text) + " (" + problem->reason + "), " +
                          problem->hint};
    }
    return to_nanoseconds(seconds);
}

std::string listed(const std::set<std::string>& names) {
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    return list;
}

class Stopper {
  public:
    Stopper(const world::RunFolder& folder, const Log& log) : folder_{folder}, log_{log} {}

    /// Until the run has ended and its processes are gone from this host, or the time is over.
    void wait(Nanoseconds within) const {
        const Nanoseconds deadline = clock_.now() + within;
        while (clock_.now() < deadline) {
            if (workers().empty() && folder_.finished()) return;
            if (folder_.living().empty() && folder_.other_hosts().empty()) return;
            std::this_thread::sleep_for(look);
        }
    }

    void kill_those_left() const {
        if (workers().empty()) return;
        if (!folder_.finished() && folder_.other_hosts().empty()) {
            // Before the deed, so that nobody takes it for an accident.
            static_cast<void>(folder_.finish(ExitCode::stopped, "killed on request"));
        }
        std::set<std::string> killed;
        const Nanoseconds deadline = clock_.now() + kill_max;
        while (clock_.now() < deadline) {
            const auto left = workers();
            if (left.empty()) break;
            for (const world::Recorded& process : left) {
                world::kill_process(process.pid, process.started);
                killed.insert(process.name);
            }
            std::this_thread::sleep_for(look);
        }
        log_.warn("killed: " + listed(killed));
    }

    [[nodiscard]] ExitCode verdict() const {
        if (const auto ending = folder_.finished()) {
            log_.info("the run has ended: " + ending->reason);
            return ExitCode::done;
        }
        const std::string hosts = folder_.other_hosts();
        if (hosts.empty()) {
            log_.error(
                "the run left no word of how it ended (its processes are gone), see what "
                "they printed");
            return ExitCode::unfinished;
        }
        log_.error("the run has not ended yet (it may go on on " + hosts +
                   "), wait, or run `rhizome stop` there");
        return ExitCode::unfinished;
    }

  private:
    /// Alive, on this host, and not the launcher: that one ends by itself when the others have,
    /// with an exit code for whoever called it.
    [[nodiscard]] std::vector<world::Recorded> workers() const {
        auto living = folder_.living();
        std::erase_if(living, [](const auto& process) { return process.name == "launcher"; });
        return living;
    }

    const world::RunFolder& folder_;
    const Log& log_;
    SteadyClock clock_;
};

}  // namespace

StopOptions parse_stop_options(const Arguments& arguments) {
    StopOptions options;
    std::optional<std::string> within;
    bool now = false;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const std::string& word = arguments[i];
        constexpr std::string_view within_equals = "--within=";
        if (word == "--now") {
            now = true;
        } else if (word == "--within" || word.starts_with(within_equals)) {
            if (within) throw ConfigError{"--within (given before), keep one"};
            const bool adjacent = word != "--within";
            if (!adjacent && ++i == arguments.size()) {
                throw ConfigError{"--within (has no value), write --within SECONDS"};
            }
            within = adjacent ? word.substr(within_equals.size()) : arguments[i];
        } else if (word.starts_with('-')) {
            throw ConfigError{"`" + shown(word) +
                              "` (no such flag), `rhizome stop --help` lists all"};
        } else if (word.empty() || !options.folder.empty()) {
            throw ConfigError{"`" + shown(word) + "` (one run's folder is wanted), name just one"};
        } else {
            options.folder = word;
        }
    }
    if (options.folder.empty()) {
        throw ConfigError{"rhizome stop (which run?), name its folder: rhizome stop FOLDER"};
    }
    if (within && now) throw ConfigError{"--now (beside --within), keep one"};
    if (within) options.within = read_seconds(*within);
    if (now) options.within = Nanoseconds{0};
    return options;
}

ExitCode stop_command(const StopOptions& options, const Log& log) {
    const auto folder = world::RunFolder::open(options.folder);
    if (folder.finished() && folder.living().empty()) {
        log.info("the run had ended before: " + folder.finished()->reason);
        return ExitCode::done;
    }
    if (const auto problem = folder.ask_to_stop()) {
        throw ConfigError{"run folder " + folder.path() + " (cannot be written: " +
                          problem.message() + "), make it writable, or kill the processes"};
    }
    const Stopper stopper{folder, log};
    stopper.wait(options.within);
    stopper.kill_those_left();
    return stopper.verdict();
}

}  // namespace rhizome::cli
