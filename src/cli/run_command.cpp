#include "cli/run_command.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <sstream>

#include "cli/launch.hpp"
#include "cli/progress.hpp"
#include "cli/run_layout.hpp"
#include "cli/run_words.hpp"
#include "cli/values.hpp"
#include "world/run_folder.hpp"

#ifndef RHIZOME_MPIRUN
#define RHIZOME_MPIRUN ""
#define RHIZOME_MPI_OPTIONS ""
#endif

namespace rhizome::cli {
namespace {

constexpr WholeRange ranks_range{1, 65536};
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

std::int32_t read_ranks(const std::string& text) {
    std::int64_t ranks = 0;
    if (const auto problem = read_whole(text, ranks_range, ranks)) {
        throw ConfigError{"--ranks=" + shown(text) + " (" + problem->reason + "), " +
                          problem->hint};
    }
    return static_cast<std::int32_t>(ranks);
}

/// This program, wherever it lies and however it was called.
std::string program_path() {
    std::error_code problem;
    const auto path = std::filesystem::read_symlink("/proc/self/exe", problem);
    ENSURE(!problem);
    return path.string();
}

}  // namespace

RunOptions parse_run_options(const Arguments& arguments, const Environment& environment,
                             const ReadFile& read_file) {
    Arguments words = arguments;
    std::replace(words.begin(), words.end(), std::string{"-n"}, std::string{"--ranks"});
    const bool digests = std::erase(words, std::string{digest_switch}) > 0;
    const TakenFlags taken = take_flags(words, {"ranks", "folder", "mpirun"});
    RunOptions options{.mpirun = mpirun_of(environment), .train = taken.rest};
    for (const Setting& flag : taken.taken) {
        if (flag.key == "ranks") options.ranks = read_ranks(flag.value);
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
    const world::RunFolder folder =
        options.folder.empty()
            ? world::RunFolder::make_below(std::string{folders}, std::chrono::system_clock::now())
            : world::RunFolder::make(options.folder);
    warn_without_lock(folder, log);
    LaunchPlan plan{.command = mpirun_command(options, built_in, environment, program,
                                              {folder.path(), folder.run()}),
                    .environment = environment,
                    .grace = grace};
    if (geteuid() == 0) {  // Open MPI wants to be told twice
        for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}) {
            plan.environment.insert(plan.environment.begin(), {name, "1"});
        }
    }
    return launch(plan, folder, log);
}

}  // namespace rhizome::cli
