// Builds a shape from a wish: how many workers each pipeline has, how many stages each worker. What
// is asked for is either built or refused with a ConfigError; nothing is quietly made smaller.
//
// Places are filled in the order in which the workers are listed, pipeline after pipeline, so
// whoever calls decides who sits next to whom. Workers left over are spares: they are in the shape,
// may own chunks and compute nothing.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "core/ids.hpp"
#include "core/lane_tree.hpp"
#include "core/run_shape.hpp"
#include "plan/cut.hpp"

namespace rhizome::plan {

struct WorkerFacts {
    WorkerId id;
    double slowness = 1;  // as in StageHost
    std::int64_t memory_bytes_max = std::numeric_limits<std::int64_t>::max();
};

struct PipelineWish {
    std::int32_t workers;
    std::optional<Cut> cut{};  // by hand; otherwise by costs
    /// Microbatches whose activations a stage keeps at once, by stage. Empty: stages - stage, which
    /// is what one forward, one backward needs, but never more than a step has.
    std::vector<std::int32_t> in_flight{};
};

struct ShapeWish {
    std::vector<PipelineWish> pipelines;
    LaneShape lanes;
    /// Stages of each worker, dealt out in turn: of w workers, stage s is on worker s mod w. Each
    /// stage gets an equal part of its worker's memory, for a cut is searched stage by stage; a cut
    /// by hand is held against the worker's whole memory.
    std::int32_t interleave = 1;
    std::vector<LayerLoad> layers;
};

/// Throws ConfigError: more pipelines than lanes, fewer workers than places, more stages than
/// layers, too little memory, a cut by hand with another number of stages.
[[nodiscard]] RunShape make_shape(const std::vector<WorkerFacts>& workers, const ShapeWish& wish);

/// Lanes by pipeline, in proportion to speed (1 / slowest stage), each at least one: what is left
/// after rounding down goes to the largest remainders, the earlier of equals first. Eight lanes for
/// three equal pipelines are 3, 3, 2. There must be at least as many lanes as pipelines.
[[nodiscard]] std::vector<std::int32_t> share_lanes(std::int32_t lanes,
                                                    const std::vector<double>& speeds);

}  // namespace rhizome::plan
