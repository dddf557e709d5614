// What all workers of a run agree to do: the shape, who owns what, and the lists of instructions of
// a training step and of an evaluation. Every worker makes the same plan from the same facts.
#pragma once

#include <optional>
#include <vector>

#include "core/layer_table.hpp"
#include "core/ownership_map.hpp"
#include "engine/recompute.hpp"
#include "schedule/costs.hpp"
#include "schedule/generate.hpp"

namespace rhizome::engine {

struct RunPlan {
    RunShape shape;
    OwnershipMap owners;
    schedule::Style style;
    schedule::Schedule step;
    /// Of what is left of a step that keeps some of its lanes; before all others.
    std::optional<schedule::Schedule> rest;
    std::optional<schedule::Schedule> evaluation;
};

/// How a run is laid out; no bit of a result depends on it.
struct Layout {
    RunShape shape;
    OwnershipMap owners;
    schedule::Style style;
    Recompute recompute;
    /// Microbatches of one evaluation; 0: there is none.
    std::int32_t evaluation_microbatches;
    /// Of the step under way, that the pipelines of the shape have already.
    std::vector<Lane> kept{};
};

/// The style must fit the shape (schedule::find_misfit). `costs` order what no dependency orders.
[[nodiscard]] RunPlan make_run_plan(const Layout& layout, const LayerTable& table,
                                    const schedule::Costs& costs);

}  // namespace rhizome::engine
