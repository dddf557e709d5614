// The program `rhizome`.
#include <unistd.h>

#include <algorithm>

#include "cli/command_line.hpp"
#include "cli/generate_command.hpp"
#include "cli/help.hpp"
#include "cli/profile_command.hpp"
#include "cli/program.hpp"
#include "cli/run_command.hpp"
#include "cli/run_words.hpp"
#include "cli/save_command.hpp"
#include "cli/start_agreement.hpp"
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
    return {.config = command.config, .start = command.start, .print_digests = command.digests};
}

ExitCode train_alone(const Command& command, const world::Variable& variable, const Log& log) {
    if (const auto warning = world::check_launch(variable, 1)) log.warn(*warning);
    const auto world = world::make_solo_world();
    TrainSettings settings = settings_of(command);
    settings.screen = screen_of(STDOUT_FILENO);
    if (command.folder.empty()) return train_command(settings, *world, log, STDOUT_FILENO);

    const auto& folder = settings.folder.emplace(world::RunFolder::make(command.folder));
    warn_without_lock(folder, log);
    record(folder, "rank.0", getpid(), log);
    SignalWords words{folder, log};
    settings.stop_asked = [&words] { return words.stop_asked(); };
    settings.save_asked = [&words] { return words.save_asked(); };
    return with_last_word(folder, log,
                          [&] { return train_command(settings, *world, log, STDOUT_FILENO); });
}

/// For ranks of an mpirun that no `rhizome run` started: the first of them makes the folder.
world::RunFolder begin_together(world::World& world, const Command& command,
                                const world::Variable& variable, const Log& log) {
    const Nanoseconds patience = to_nanoseconds(command.config.bounds.wait_s);
    const std::string run = variable("PMIX_NAMESPACE").value_or("");
    const bool first = world::is_first(world);
    using MaybeFolder = std::optional<world::RunFolder>;
    MaybeFolder folder = agree_to_start(world, patience, [&] {
        return first ? MaybeFolder{world::RunFolder::make(command.folder, run)} : std::nullopt;
    });
    if (folder) warn_without_lock(*folder, log);
    MaybeFolder mine = agree_to_start(world, patience, [&] {
        return first ? std::move(folder) : MaybeFolder{world::RunFolder::join(command.folder, run)};
    });
    ENSURE(mine.has_value());
    return std::move(*mine);
}

std::string rank_name(const world::Variable& variable) {
    return "rank." + variable("PMIX_RANK").value_or("?");
}

ExitCode train_on_mpi(TrainSettings& settings, world::Pulse& pulse, const Command& command,
                      const world::Variable& variable, const Log& log) {
    const auto world =
        world::make_mpi_world({.pulse = pulse, .spares = command.config.losses.in_a_row});
    const auto ranks = static_cast<std::int32_t>(world->members().size());
    const auto warning = world::check_launch(variable, ranks);
    if (warning && world::is_first(*world)) log.warn(*warning);
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
    const auto train = [&] { return train_command(settings, *world, log, STDOUT_FILENO); };
    if (command.folder.empty()) return train();
    if (settings.folder) {
        const ExitCode code = train();
        // Or it has left alone, with a word of its own, and others go on.
        rank_end().has_word =
            settings.folder->finished().has_value() || code == ExitCode::peer_lost;
        return code;
    }
    const auto& folder = settings.folder.emplace(begin_together(*world, command, variable, log));
    record(folder, rank_name(variable), getpid(), log);
    const bool speaks = world::is_first(*world);
    return speaks ? with_last_word(folder, log, train) : train();
}

ExitCode train_as_rank(const Command& command, const world::Variable& variable, const Log& log) {
    TrainSettings settings = settings_of(command);
    const BoundsConfig& bounds = command.config.bounds;
    const auto pulse = world::split_into_watched_rank(
        {.stopped = to_nanoseconds(bounds.stopped_s), .stuck = to_nanoseconds(bounds.stuck_s)});
    rank_end().is_rank = true;
    if (command.joins.empty()) return train_on_mpi(settings, *pulse, command, variable, log);

    // By this process and not by its proxy or watch, which live longer. Before MPI is started,
    // where many a rank was stuck.
    const auto& folder =
        settings.folder.emplace(world::RunFolder::join(command.folder, command.joins));
    record(folder, rank_name(variable), getpid(), log);
    try {
        return train_on_mpi(settings, *pulse, command, variable, log);
    } catch (const UserError& error) {
        const std::string text{error.what()};
        if (!text.empty() && folder.finish(error.code(), text).problem) throw;
        rank_end().has_word = folder.finished().has_value();
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
            print(help_text());
            return ExitCode::done;
        case Command::Kind::train_help:
            print(train_help_text());
            return ExitCode::done;
        case Command::Kind::version:
            print(version_text());
            return ExitCode::done;
        case Command::Kind::train:
            return train(command, environment, log);
        case Command::Kind::run_help:
            print(run_help_text());
            return ExitCode::done;
        case Command::Kind::run:
            return run_command(command.run, environment, log);
        case Command::Kind::stop_help:
            print(stop_help_text());
            return ExitCode::done;
        case Command::Kind::stop:
            return stop_command(command.stop, log);
        case Command::Kind::generate_help:
            print(generate_help_text());
            return ExitCode::done;
        case Command::Kind::generate:
            return generate_command(command.generate, log, STDOUT_FILENO);
        case Command::Kind::save_help:
            print(save_help_text());
            return ExitCode::done;
        case Command::Kind::save:
            return save_command(command.save, log);
        case Command::Kind::profile_help:
            print(profile_help_text());
            return ExitCode::done;
        case Command::Kind::profile:
            return profile_command(command.profile, STDOUT_FILENO);
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
