// What a table of tensors must fulfil to be stored: files may come from anywhere.
//
// Private to this room.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "state/facts.hpp"

namespace rhizome::state {

/// "block.3", "attention.weight". Nothing if a name is not two words of letters, digits, dots,
/// underscores and hyphens with a slash between them, or a word is only dots.
[[nodiscard]] std::optional<std::pair<std::string, std::string>> split_name(std::string_view name);

/// Why this table cannot be stored, if it cannot.
[[nodiscard]] std::optional<std::string> problem_of(const StoredTable& table);

/// "block.3/attention.weight#7", and with " first_moment" behind.
[[nodiscard]] std::string place_of(const StoredTable& table, StoredChunk chunk);
[[nodiscard]] std::string place_of(const StoredTable& table, StoredChunk chunk, Value value);

}  // namespace rhizome::state
