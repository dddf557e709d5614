// The verbs of `rhizome-state` that look at states one by one and change nothing.
#pragma once

#include <memory>
#include <string>

#include "cli/state_reports.hpp"
#include "core/log.hpp"

namespace rhizome::cli {

using Files = std::shared_ptr<state::FileSystem>;

// All throw DataError (StateError where a state is damaged) and FileError. What `path` means when
// it is a run is said to `log`.

/// `path` must be a run or a folder of states.
[[nodiscard]] ListReport list_states(const Files& files, const std::string& path);
[[nodiscard]] ShowReport show_state(const Files& files, const std::string& path, const Log& log);
/// `name` may be a tied tensor's.
[[nodiscard]] TensorReport show_tensor(const Files& files, const std::string& path,
                                       const std::string& name, const Log& log);
/// Of a run all states.
[[nodiscard]] VerifyReport verify_states(const Files& files, const std::string& path);
[[nodiscard]] HistoryReport show_history(const Files& files, const std::string& path,
                                         const Log& log);

}  // namespace rhizome::cli
