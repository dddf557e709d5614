// Who computes what in a step, as plain data: the plan room makes it, schedules are generated from
// it, the engine obeys. Layout only; no bit of a result depends on it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "core/lane_tree.hpp"

namespace rhizome {

/// Neighbouring layers [first, last).
struct LayerRange {
    std::int32_t first;
    std::int32_t last;

    [[nodiscard]] std::int32_t size() const { return last - first; }
    [[nodiscard]] bool contains(LayerId layer) const {
        return first <= layer.value() && layer.value() < last;
    }
    friend auto operator<=>(const LayerRange&, const LayerRange&) = default;
};

/// One place in a pipeline: the layers computed there, and by whom. A place is not a rank: a worker
/// may have several places in its pipeline (interleaved schedules).
struct StageShape {
    WorkerId worker;
    LayerRange layers;
    friend auto operator<=>(const StageShape&, const StageShape&) = default;
};

/// One copy of the network, first layer to last, and the lanes that run through it. Pipelines may
/// differ in depth and in lanes.
struct PipelineShape {
    std::vector<StageShape> stages;
    LaneRange lanes;
    friend bool operator==(const PipelineShape&, const PipelineShape&) = default;
};

struct RunShape {
    std::vector<WorkerId> workers;  // ascending; those in no pipeline may own chunks or be spares
    LaneShape lanes;
    std::vector<PipelineShape> pipelines;  // in the order of their lanes

    /// Where a worker stands in `workers`.
    [[nodiscard]] std::size_t place_of(WorkerId worker) const;
    /// The pipeline that a worker computes in, if any.
    [[nodiscard]] std::optional<PipelineId> pipeline_of(WorkerId worker) const;
    /// The microbatches of a pipeline: [first, last), ascending.
    [[nodiscard]] std::int32_t first_microbatch(PipelineId pipeline) const;
    [[nodiscard]] std::int32_t last_microbatch(PipelineId pipeline) const;

    friend bool operator==(const RunShape&, const RunShape&) = default;
};

/// The first thing wrong with a shape for a network of that many layers: workers not ascending, a
/// stage without layers, layers or lanes not covered exactly once and in order, an unknown worker,
/// a worker in two pipelines.
[[nodiscard]] std::optional<std::string> find_fault(const RunShape& shape, std::int32_t layers);

}  // namespace rhizome
