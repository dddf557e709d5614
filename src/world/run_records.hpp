// What the small files of a run's folder say (run_folder.hpp), as text and back.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "core/error.hpp"

namespace rhizome::world {

/// How a run ended.
struct Ending {
    ExitCode code;
    std::string reason;  // one line
    friend bool operator==(const Ending&, const Ending&) = default;
};

/// A process of a run.
struct Recorded {
    std::string name;  // rank.3; the file's, not in its text
    std::string host;
    pid_t pid;
    std::uint64_t started;  // as in Process
    friend bool operator==(const Recorded&, const Recorded&) = default;
};

[[nodiscard]] std::string to_text(const Ending& ending);
[[nodiscard]] std::string to_text(const Recorded& process);

/// Strict in the simplest way: a text is one if writing its content again gives the same text.
[[nodiscard]] std::optional<Ending> parse_ending(const std::string& text);
[[nodiscard]] std::optional<Recorded> parse_recorded(const std::string& name,
                                                     const std::string& text);

}  // namespace rhizome::world
