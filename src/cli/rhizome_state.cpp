// The program `rhizome-state`: needs no MPI launch and no accelerator.
#include <unistd.h>

#include "cli/help.hpp"
#include "cli/program.hpp"
#include "cli/state_command.hpp"

namespace rhizome::cli {
namespace {

ExitCode run(const Arguments& arguments, const Environment& environment, const Log& log) {
    if (arguments.empty()) {
        write_all(STDERR_FILENO, state_help_text());
        return ExitCode::bad_config;
    }
    const std::string& first = arguments.front();
    if (first == "--help" || first == "-h") {
        print(state_help_text());
        return ExitCode::done;
    }
    if (first == "--version") {
        print(version_text());
        return ExitCode::done;
    }
    const StateAnswer answer =
        state_command(parse_state_options(arguments), state::make_file_system(), environment, log);
    print(answer.text);
    return answer.code;
}

}  // namespace
}  // namespace rhizome::cli

int main(int count, char** arguments, char** environment) {
    return rhizome::cli::run_program(count, arguments, environment, rhizome::cli::run);
}
