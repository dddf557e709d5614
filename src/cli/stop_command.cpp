#include "cli/stop_command.hpp"

#include <set>
#include <thread>
#include <vector>

#include "cli/folder_options.hpp"
#include "world/process_table.hpp"
#include "world/run_folder.hpp"

namespace rhizome::cli {
namespace {

constexpr Nanoseconds kill_max = std::chrono::seconds{10};  // a process inside the kernel dies late

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
            std::this_thread::sleep_for(folder_look);
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
            std::this_thread::sleep_for(folder_look);
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
    const FolderOptions given = parse_folder_options("stop", arguments, {"--now"});
    StopOptions options{.folder = given.folder};
    const bool now = !given.switches.empty();
    if (given.within && now) throw ConfigError{"--now (beside --within), keep one"};
    if (given.within) options.within = *given.within;
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
