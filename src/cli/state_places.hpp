// What a path on the command line of `rhizome-state` means: a state, or a folder of states, by
// itself or in a run's folder. And how a state looks without its values being read.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/state_reports.hpp"
#include "core/log.hpp"
#include "state/state_folder.hpp"

namespace rhizome::cli {

struct Place {
    enum class Kind : std::uint8_t { state, states };
    Kind kind;
    std::string path;  // of the state, or of the folder of states
    std::string run;   // the run's folder, if there is one above the states
};

/// Throws DataError if it is neither, ConfigError for an empty path.
[[nodiscard]] Place find_place(state::FileSystem& files, const std::string& path);

/// Index and structure of all shares are checked, and that every chunk is where it should be.
/// Throws FileError where the folder cannot be listed.
[[nodiscard]] ListedState look_at_state(const std::shared_ptr<state::FileSystem>& files,
                                        const std::string& path);

/// All states of a folder, by steps.
[[nodiscard]] std::vector<ListedState> look_at_states(
    const std::shared_ptr<state::FileSystem>& files, const std::string& folder);

/// One state: the one that is named, or the newest whole one of a run, which is said then. Throws
/// DataError if there is none.
[[nodiscard]] std::string find_state(const std::shared_ptr<state::FileSystem>& files,
                                     const std::string& path, const Log& log);

/// Of a file, or of all files in a folder and those in it.
[[nodiscard]] std::int64_t bytes_at(state::FileSystem& files, const std::string& path);

/// Splits a path into the folder and the name in it.
[[nodiscard]] std::pair<std::string, std::string> split_path(const std::string& path);

}  // namespace rhizome::cli
