// The program `rhizome`.
#include <unistd.h>

#include "cli/command_line.hpp"
#include "cli/help.hpp"
#include "cli/program.hpp"
#include "cli/train_command.hpp"
#include "core/clock.hpp"

namespace rhizome::cli {
namespace {

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
            train_command(command.config, SteadyClock{}, log, STDOUT_FILENO);
            return ExitCode::done;
    }
    ENSURE(false);
}

}  // namespace
}  // namespace rhizome::cli

int main(int count, char** arguments, char** environment) {
    return rhizome::cli::run_program(count, arguments, environment, rhizome::cli::run);
}
