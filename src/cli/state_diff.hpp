// Are the values of two states equal, and where not? They may be cut into other chunks by other
// writers. Chunks whose digests are equal are not read.
#pragma once

#include <optional>
#include <vector>

#include "cli/state_reports.hpp"

namespace rhizome::cli {

struct DiffRule {
    std::optional<double> tolerance{};  // nothing: bit for bit
    std::vector<state::Value> values{state::all_values.begin(), state::all_values.end()};
};

/// Values alone decide whether two states are equal; what the states say of themselves is told
/// beside it. Throws StateError, FileError.
[[nodiscard]] DiffReport compare_states(state::StateReader& a, state::StateReader& b,
                                        const DiffRule& rule);

}  // namespace rhizome::cli
