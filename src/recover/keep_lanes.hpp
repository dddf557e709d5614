// What can stay of a step that a loss broke off: pipelines that lost nobody go on as they are, with
// the lanes that they had done, and share out what the others leave undone.
#pragma once

#include <optional>
#include <vector>

#include "core/run_shape.hpp"
#include "recover/shapes.hpp"
#include "recover/survey.hpp"
#include "schedule/generate.hpp"

namespace rhizome::recover {

/// What the members work in: the same for all, since a repair counts only when all have agreed. Who
/// was on its way back to a state file may have another; then some chunk has no owner, and nobody
/// asks what can be kept.
struct InUse {
    const RunShape& shape;
    schedule::Style style;
};

struct Rest {
    RunShape shape;          // of all members; those of broken pipelines are spares
    std::vector<Lane> kept;  // by the pipelines that have them in `shape`; ascending, never none
    double seconds;          // predicted, of computing all other lanes
};

/// Nothing if no lane can be kept.
[[nodiscard]] std::optional<Rest> keep_lanes(const Survey& survey, const InUse& in_use,
                                             const Manner& manner);

}  // namespace rhizome::recover
