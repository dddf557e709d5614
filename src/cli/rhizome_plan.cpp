// The program `rhizome-plan`: needs no MPI launch and no accelerator.
#include <unistd.h>

#include "cli/help.hpp"
#include "cli/program.hpp"
#include "cli/schedule_command.hpp"
#include "cli/schedule_options.hpp"
#include "cli/timeline_command.hpp"
#include "cli/values.hpp"

namespace rhizome::cli {
namespace {

bool is_help(std::string_view word) { return word == "--help" || word == "-h"; }

ExitCode plan(const Arguments& arguments, const Environment& /*environment*/, const Log& log) {
    if (arguments.empty()) {
        write_all(STDERR_FILENO, plan_help_text());
        return ExitCode::bad_config;
    }
    if (is_help(arguments.front())) {
        print(plan_help_text());
        return ExitCode::done;
    }
    if (arguments.front() == "--version") {
        print(version_text());
        return ExitCode::done;
    }
    const bool timeline = arguments.front() == "timeline";
    if (!timeline && arguments.front() != "schedule") {
        throw ConfigError{"`" + shown(arguments.front()) +
                          "` (no such command), `rhizome-plan --help` lists what there is"};
    }
    const Arguments rest{arguments.begin() + 1, arguments.end()};
    for (const std::string& word : rest) {
        if (!is_help(word)) continue;
        print(timeline ? timeline_help_text() : schedule_help_text());
        return ExitCode::done;
    }
    print(timeline ? timeline_command(parse_timeline_options(rest), log)
                   : schedule_command(parse_schedule_options(rest)));
    return ExitCode::done;
}

}  // namespace
}  // namespace rhizome::cli

int main(int count, char** arguments, char** environment) {
    return rhizome::cli::run_program(count, arguments, environment, rhizome::cli::plan);
}
