// Sets of moments, as intervals.
#pragma once

#include <vector>

#include "engine/recorder.hpp"

namespace rhizome::cli {

/// Invariant, where it is the result of one of these or given to one but united(): ascending, with
/// gaps in between, none empty.
using Times = std::vector<engine::Interval>;

/// Of any intervals, in any order.
[[nodiscard]] Times united(Times times);
/// What is in both.
[[nodiscard]] Times common(const Times& one, const Times& other);
/// What is in the first only.
[[nodiscard]] Times without(const Times& one, const Times& other);
[[nodiscard]] Nanoseconds sum(const Times& times);

}  // namespace rhizome::cli
