// States that are written by `rhizome-state`: in one piece, under any name. Like a run's they are
// written aside and get their name when they are whole.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "cli/state_reports.hpp"

namespace rhizome::cli {

/// All elements of a tensor's values, in the order of state::all_values; none: all are zero.
using TensorValues = std::array<std::vector<std::byte>, 3>;

/// Throws ConfigError if the name is taken, has no folder, or lies within a state.
void check_target(state::FileSystem& files, const std::string& path);

/// A state with one share. It and what it is made of are in memory together. Throws ConfigError
/// where check_target does, where the name says other steps and where it cannot be written: then
/// nothing is left behind.
void write_state(state::FileSystem& files, const std::string& path, const state::StateFacts& facts,
                 const state::StoredTable& table, const std::vector<TensorValues>& tensors);

/// Of what was written just now, for a report: what is there is there, so 0 where nobody can tell.
[[nodiscard]] std::int64_t written_bytes(state::FileSystem& files, const std::string& path);

/// Throws ConfigError, StateError, FileError.
[[nodiscard]] WrittenReport merge_state(const std::shared_ptr<state::FileSystem>& files,
                                        const std::string& from, const std::string& to);

}  // namespace rhizome::cli
