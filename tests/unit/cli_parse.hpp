// Parsing without a process: flags, variables and the one configuration file are arguments.
#pragma once

#include <string>
#include <utility>

#include "cli/options.hpp"
#include "core/error.hpp"

namespace rhizome::cli {

struct Written {
    Arguments flags{};
    Environment environment{};
    std::string file{};  // content of run.conf; empty: there is none
};

inline RunConfig parse(Written written) {
    if (!written.file.empty())
        written.flags.insert(written.flags.begin(), {"--config", "run.conf"});
    const auto read = [&written](const std::string& path) {
        if (path != "run.conf") throw ConfigError{path + " (not there), name run.conf"};
        return written.file;
    };
    return parse_run_config(written.flags, written.environment, read);
}

/// As above, with training data.
inline RunConfig parse_with_data(Written written) {
    written.flags.insert(written.flags.end(), {"--data.train", "train.txt"});
    return parse(std::move(written));
}

/// What the user reads, or "" if all is well.
inline std::string message_of(Written written) {
    try {
        (void)parse_with_data(std::move(written));
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "";
}

}  // namespace rhizome::cli
