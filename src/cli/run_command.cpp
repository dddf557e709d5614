#include "cli/run_command.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <sstream>

#include "cli/launch.hpp"
#include "cli/progress.hpp"
#include "cli/run_layout.hpp"
#include "cli/run_states.hpp"
#include "cli/run_words.hpp"
#include "cli/values.hpp"
#include "state/state_folder.hpp"
#include "world/run_folder.hpp"

#ifndef RHIZOME_MPIRUN
#define RHIZOME_MPIRUN ""
#define RHIZOME_MPI_OPTIONS ""
#endif

namespace rhizome::cli {
namespace {

constexpr WholeRange ranks_range{1, 65536};
constexpr WholeRange restarts_range{0, 1'000'000};
constexpr Nanoseconds grace = std::chrono::seconds{10};
constexpr std::string_view folders = "runs";  // of those that are given no name

std::string mpirun_of(const Environment& environment) {
    for (const auto& [name, value] : environment) {
        if (name != mpirun_variable) continue;
        if (value.empty()) {
            throw ConfigError{name + " (has no value), give one or leave the variable out"};
        }
        return value;
    }
    return "";
}

std::int32_t read_count(const std::string& flag, const std::string& text, WholeRange range) {
    std::int64_t count = 0;
    if (const auto problem = read_whole(text, range, count)) {
        throw ConfigError{"--" + flag + "=" + shown(text) + " (" + problem->reason + "), " +
                          problem->hint};
    }
    return static_cast<std::int32_t>(count);
}

/// This program, wherever it lies and however it was called.
std::string program_path() {
    std::error_code problem;
    const auto path = std::filesystem::read_symlink("/proc/self/exe", problem);
    ENSURE(!problem);
    return path.string();
}

/// How often a lost run may be started again: as long as it gets on.
class Restarts {
  public:
    Restarts(std::int32_t barren_max, const std::string& folder)
        : barren_max_{barren_max}, states_{states_folder(folder)}, newest_{newest()} {}

    /// Says what happens next.
    [[nodiscard]] bool allow_another(const Log& log) {
        const auto now = newest();
        barren_ = now == newest_ ? barren_ + 1 : 1;
        newest_ = now;
        if (barren_ > barren_max_) {
            if (barren_max_ > 0) {
                log.error("the run is not started again (it was lost " +
                          std::to_string(barren_max_ + 1) +
                          " times in a row without a newer state), see why, or raise --restarts");
            }
            return false;
        }
        log.warn("the run was lost and is started again, " +
                 (now ? "from its state after step " + std::to_string(*now)
                      : std::string{"from the beginning: it had saved nothing"}));
        return true;
    }

  private:
    [[nodiscard]] std::optional<std::int32_t> newest() const {
        try {
            const auto states = state::find_states(*state::make_file_system(), states_);
            return states.empty() ? std::nullopt : std::optional{states.front().steps};
        } catch (const state::FileError&) {
            return std::nullopt;
        }
    }

    std::int32_t barren_max_;
    std::string states_;
    std::optional<std::int32_t> newest_;
    std::int32_t barren_ = 0;  // starts, since there was a newer state
};

}  // namespace

RunOptions parse_run_options(const Arguments& arguments, const Environment& environment,
                             const ReadFile& read_file) {
    Arguments words = arguments;
    std::replace(words.begin(), words.end(), std::string{"-n"}, std::string{"--ranks"});
    const bool digests = std::erase(words, std::string{digest_switch}) > 0;
    const TakenFlags taken = take_flags(words, {"ranks", "folder", "mpirun", "restarts"});
    RunOptions options{.mpirun = mpirun_of(environment), .train = taken.rest};
    for (const Setting& flag : taken.taken) {
        if (flag.key == "ranks") options.ranks = read_count("ranks", flag.value, ranks_range);
        if (flag.key == "restarts") {
            options.restarts = read_count("restarts", flag.value, restarts_range);
        }
        if (flag.key == "folder") options.folder = flag.value;
        if (flag.key == "mpirun") options.mpirun = flag.value;
    }
    if (options.ranks == 0) {
        throw ConfigError{"--ranks (how many are to train?), write -n N or --ranks N"};
    }
    const RunConfig config = parse_run_config(options.train, environment, read_file);
    const std::int32_t needed = workers_needed(config);
    if (options.ranks < needed) {
        throw ConfigError{"--ranks=" + std::to_string(options.ranks) + " (pipelines=" +
                          depths_text(config.depths) + " needs " + std::to_string(needed) +
                          "), start " + std::to_string(needed) + " or take smaller pipelines"};
    }
    if (digests) options.train.emplace_back(digest_switch);
    return options;
}

std::vector<std::string> mpirun_command(const RunOptions& options, const BuiltInMpi& built_in,
                                        const Environment& environment, const std::string& program,
                                        const RunPlace& place) {
    if (built_in.options.empty()) {
        throw ConfigError{
            "rhizome run (this program was built without an Open MPI with ULFM), build it with "
            "one, or train in one process with `rhizome train`"};
    }
    std::vector<std::string> command{options.mpirun.empty() ? built_in.mpirun : options.mpirun};
    std::istringstream always{built_in.options};
    for (std::string word; always >> word;) command.push_back(word);
    command.insert(command.end(), {"--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"});
    // On other hosts the ranks' environment is a new one.
    for (const Setting& setting : environment_settings(environment)) {
        command.insert(command.end(), {"-x", setting.where});
    }
    command.insert(command.end(), {"-n", std::to_string(options.ranks), program, "train",
                                   "--folder=" + place.folder, "--run=" + place.run});
    if (place.start > 0) command.push_back("--start=" + std::to_string(place.start));
    command.insert(command.end(), options.train.begin(), options.train.end());
    if (const Screen screen = screen_of(STDOUT_FILENO); screen.kind == Screen::Kind::terminal) {
        command.push_back("--columns=" + std::to_string(screen.columns));
    }
    return command;
}

ExitCode run_command(const RunOptions& options, const Environment& environment, const Log& log) {
    const BuiltInMpi built_in{RHIZOME_MPIRUN, RHIZOME_MPI_OPTIONS};
    const std::string program = program_path();
    // Before the folder is made: a mistake leaves nothing behind.
    static_cast<void>(mpirun_command(options, built_in, environment, program, {}));
    std::optional<world::RunFolder> folder =
        options.folder.empty()
            ? world::RunFolder::make_below(std::string{folders}, std::chrono::system_clock::now())
            : world::RunFolder::make(options.folder);
    const std::string path = folder->path();
    warn_without_lock(*folder, log);
    LaunchPlan plan{.command = {}, .environment = environment, .grace = grace};
    if (geteuid() == 0) {  // Open MPI wants to be told twice
        for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}) {
            plan.environment.insert(plan.environment.begin(), {name, "1"});
        }
    }
    Launches launches{log};
    Restarts restarts{options.restarts, path};
    for (std::int32_t start = 0;; ++start) {
        plan.command =
            mpirun_command(options, built_in, environment, program, {path, folder->run(), start});
        const ExitCode code = launches.launch(plan, *folder);
        const bool lost = code == ExitCode::peer_lost || code == ExitCode::unfinished;
        if (!lost || launches.end_asked() || !restarts.allow_another(log)) return code;
        folder.reset();  // whoever takes a run over wants its lock
        folder.emplace(world::RunFolder::make(path));
    }
}

}  // namespace rhizome::cli
