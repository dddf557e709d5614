// What the user asked the program `rhizome` to do.
#pragma once

#include <cstdint>
#include <string>

#include "cli/generate_options.hpp"
#include "cli/options.hpp"
#include "cli/profile_command.hpp"
#include "cli/run_command.hpp"
#include "cli/run_config.hpp"
#include "cli/save_command.hpp"
#include "cli/stop_command.hpp"

namespace rhizome::cli {

struct Command {
    enum class Kind : std::uint8_t {
        none,  // no command at all: help_text() to stderr, ExitCode::bad_config
        help,
        train_help,
        version,
        train,
        run_help,
        run,
        stop_help,
        stop,
        generate_help,
        generate,
        save_help,
        save,
        profile_help,
        profile,
    };
    Kind kind = Kind::none;
    RunConfig config{};      // of train
    std::string folder{};    // of train: the run's; empty: there is none
    std::string joins{};     // of train as a rank: the run of `rhizome run` that it belongs to
    bool digests = false;    // of train: print them
    std::int32_t start = 0;  // of train as a rank: how often its run was started before
    /// Of train as a rank, whose output goes to a terminal of so many columns; 0: it does not.
    std::int32_t columns = 0;
    RunOptions run{};
    StopOptions stop{};
    GenerateOptions generate{};
    SaveOptions save{};
    ProfileOptions profile{};
};

/// `arguments` are those after the program's name. Throws ConfigError.
[[nodiscard]] Command parse_command_line(const Arguments& arguments, const Environment& environment,
                                         const ReadFile& read_file);

/// Of main's third argument or of ::environ: null-terminated, "name=value".
[[nodiscard]] Environment environment_of(const char* const* variables);

}  // namespace rhizome::cli
