// A history as text: one JSON object a line, {"time":...,"steps":...,"kind":...,"text":...}.
//
// Private to this room.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "state/facts.hpp"

namespace rhizome::state {

/// What is no UTF-8 in a text gets replaced: a history is for people.
[[nodiscard]] std::string history_text(const std::vector<Event>& history);
/// Nothing if it is no such text.
[[nodiscard]] std::optional<std::vector<Event>> parse_history(std::string_view text);

}  // namespace rhizome::state
