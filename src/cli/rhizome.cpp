// The program `rhizome`. Errors come here, are said once, and become the exit code.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <new>

#include "cli/command_line.hpp"
#include "cli/help.hpp"
#include "cli/train_command.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/log.hpp"

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

ExitCode run_and_report(const Arguments& arguments, const Environment& environment) {
    const Log log = log_to(STDERR_FILENO);
    try {
        return run(arguments, environment, log);
    } catch (const UserError& error) {
        log.error(error.what());
        return error.code();
    } catch (const std::bad_alloc&) {
        log.error(
            "out of memory (the configuration needs more than this machine gives), take a "
            "smaller model or microbatch_size, or recompute=all");
        return ExitCode::bad_config;
    } catch (const std::exception& error) {
        log.error(std::string{"unforeseen: "} + error.what() +
                  " (a bug in rhizome), please report it");
        return ExitCode::our_fault;
    }
}

}  // namespace
}  // namespace rhizome::cli

namespace {

/// Descriptors 0 to 2 are always open, or the first file that is opened would get the number of
/// standard output and be written into.
void open_standard_descriptors() {
    for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
        if (fcntl(descriptor, F_GETFD) == -1) {
            static_cast<void>(open("/dev/null", O_RDWR));  // gets the lowest free number
        }
    }
}

}  // namespace

int main(int count, char** arguments, char** environment) {
    using namespace rhizome::cli;
    ENSURE(count >= 1);
    open_standard_descriptors();
    // A reader that goes away must not take the run with it.
    static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
    return static_cast<int>(
        run_and_report({arguments + 1, arguments + count}, environment_of(environment)));
}
