// `rhizome-state prune`: removes states that a rule does not keep. Damaged ones neither count as
// kept nor are they removed: a newer program may be able to read them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/state_reports.hpp"

namespace rhizome::cli {

/// Which of these the rule removes; the newest whole one is never among them. Fills `removed`,
/// `kept` and `damaged`.
[[nodiscard]] PruneReport plan_prune(const std::vector<ListedState>& states,
                                     const state::KeepRule& rule);

enum class Removal : std::uint8_t { real, told_only };

/// `path` is a run or a folder of states. Throws ConfigError while its run goes on, DataError,
/// FileError.
[[nodiscard]] PruneReport prune_states(const std::shared_ptr<state::FileSystem>& files,
                                       const std::string& path, const state::KeepRule& rule,
                                       Removal removal);

}  // namespace rhizome::cli
