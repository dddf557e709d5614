// The program `rhizome`.
#include <unistd.h>

#include <algorithm>

#include "cli/command_line.hpp"
#include "cli/generate_command.hpp"
#include "cli/help.hpp"
#include "cli/program.hpp"
#include "cli/run_command.hpp"
#include "cli/stop_command.hpp"
#include "cli/train_command.hpp"
#include "core/clock.hpp"
#include "core/text.hpp"
#include "world/launch_check.hpp"
#include "world/mpi_world.hpp"
#include "world/process_tree.hpp"

namespace rhizome::cli {
namespace {

/// What main has to know of a rank.
struct RankEnd {
    bool is_rank = false;   // then it may end only by leave_mpi()
    bool has_word = false;  // the run's folder says how the run ended
};

RankEnd& rank_end() {
    static RankEnd only;
    return only;
}

world::Variable variables_of(const Environment& environment) {
    return [&environment](const std::string& name) -> std::optional<std::string> {
        for (const auto& [key, value] : environment) {
            if (key == name) return value;
        }
        return std::nullopt;
    };
}

TrainSettings settings_of(const Command& command) {
    TrainSettings settings{.config = command.config, .print_digests = command.digests};
    if (!command.folder.empty()) settings.folder = world::RunFolder::open(command.folder);
    return settings;
}

ExitCode train_alone(const Command& command, const world::Variable& variable, const Log& log) {
    if (const auto warning = world::check_launch(variable, 1)) log.warn(*warning);
    const auto world = world::make_solo_world();
    TrainSettings settings = settings_of(command);
    settings.screen = screen_of(STDOUT_FILENO);
    return train_command(settings, *world, log, STDOUT_FILENO);
}

void record(const world::RunFolder& folder, const std::string& name, pid_t pid, const Log& log) {
    if (const std::error_code problem = folder.record_process(name, pid)) {
        log.warn(name + " could not be written to " + folder.path() + " (" + problem.message() +
                 "), so nobody can end it by force");
    }
}

ExitCode train_on_mpi(TrainSettings& settings, world::Pulse& pulse, const Command& command,
                      const world::Variable& variable, const Log& log) {
    const auto world = world::make_mpi_world({.pulse = pulse});
    const auto ranks = static_cast<std::int32_t>(world->members().size());
    const auto warning = world::check_launch(variable, ranks);
    if (warning && world->self() == world->members().front()) log.warn(*warning);
    // Reading data and making weights takes what it takes, and shows no sign of life before the
    // first step.
    std::optional<world::Pulse::Waiting> starting;
    starting.emplace(pulse, to_nanoseconds(command.config.bounds.wait_s));
    settings.pulse = [&] {
        starting.reset();
        pulse.beat();
    };
    // The launcher gives every rank a terminal of its own, whatever its output leads to.
    if (command.columns > 1) {
        settings.screen = {Screen::Kind::terminal, static_cast<std::size_t>(command.columns)};
    }
    const auto local = parse_integer(variable("OMPI_COMM_WORLD_LOCAL_SIZE").value_or("1"));
    settings.ranks_on_host =
        static_cast<std::int32_t>(std::clamp<std::int64_t>(local.value_or(1), 1, ranks));
    const ExitCode code = train_command(settings, *world, log, STDOUT_FILENO);
    rank_end().has_word = settings.folder && settings.folder->finished();
    return code;
}

ExitCode train_as_rank(const Command& command, const world::Variable& variable, const Log& log) {
    TrainSettings settings = settings_of(command);
    const BoundsConfig& bounds = command.config.bounds;
    const auto pulse = world::split_into_watched_rank(
        {.stopped = to_nanoseconds(bounds.stopped_s), .stuck = to_nanoseconds(bounds.stuck_s)});
    rank_end().is_rank = true;
    if (settings.folder) {
        record(*settings.folder, "rank." + variable("PMIX_RANK").value_or("?"), getpid(), log);
    }
    try {
        return train_on_mpi(settings, *pulse, command, variable, log);
    } catch (const UserError& error) {
        if (!settings.folder) throw;
        const std::string text{error.what()};
        if (!text.empty() && settings.folder->finish(error.code(), text).problem) throw;
        rank_end().has_word = settings.folder->finished().has_value();
        throw UserError{error.code(), ""};  // the launcher says it
    }
}

ExitCode train(const Command& command, const Environment& environment, const Log& log) {
    const world::Variable variable = variables_of(environment);
    return world::launched_by_mpi(variable) ? train_as_rank(command, variable, log)
                                            : train_alone(command, variable, log);
}

ExitCode run(const Arguments& arguments, const Environment& environment, const Log& log) {
    const Command command = parse_command_line(arguments, environment, read_config_file);
    switch (command.kind) {
        case Command::Kind::none:
            write_all(STDERR_FILENO, help_text());
            return ExitCode::bad_config;
        case Command::Kind::help:
            write_all(STDOUT_FILENO, help_text());
            return ExitCode::done;
        case Command::Kind::train_help:
            write_all(STDOUT_FILENO, train_help_text());
            return ExitCode::done;
        case Command::Kind::version:
            write_all(STDOUT_FILENO, version_text());
            return ExitCode::done;
        case Command::Kind::train:
            return train(command, environment, log);
        case Command::Kind::run_help:
            write_all(STDOUT_FILENO, run_help_text());
            return ExitCode::done;
        case Command::Kind::run:
            return run_command(command.run, environment, log);
        case Command::Kind::stop_help:
            write_all(STDOUT_FILENO, stop_help_text());
            return ExitCode::done;
        case Command::Kind::stop:
            return stop_command(command.stop, log);
        case Command::Kind::generate_help:
            write_all(STDOUT_FILENO, generate_help_text());
            return ExitCode::done;
        case Command::Kind::generate:
            return generate_command(command.generate, log, STDOUT_FILENO);
    }
    ENSURE(false);
}

}  // namespace
}  // namespace rhizome::cli

int main(int count, char** arguments, char** environment) {
    const int code = rhizome::cli::run_program(count, arguments, environment, rhizome::cli::run);
    using rhizome::ExitCode;
    if (rhizome::cli::rank_end().is_rank) {
        // mpirun drops what ranks have just printed if one of them ends with another code than 0.
        rhizome::world::leave_mpi(rhizome::cli::rank_end().has_word ? ExitCode::done
                                                                    : static_cast<ExitCode>(code));
    }
    return code;
}
