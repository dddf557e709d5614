// The shapes that a number of workers can take, and how long a step takes in each.
#pragma once

#include <string>
#include <vector>

#include "core/run_shape.hpp"
#include "plan/shape.hpp"
#include "schedule/generate.hpp"

namespace rhizome::recover {

/// How a run wants to be laid out, whoever is there.
struct Manner {
    LaneShape lanes;
    std::vector<plan::LayerLoad> layers;
    /// Workers of the shallowest pipeline that the run was started with. Its layers fit into the
    /// memory of a worker, so no pipeline is made shallower as long as there are so many workers.
    std::int32_t depth_min = 1;
    schedule::Style style = schedule::Style::one_f_one_b;
    std::int32_t parts = 1;  // stages per worker
};

/// A shape of workers 0, 1, ..., who stand for places: pipeline after pipeline, spares last.
struct Candidate {
    RunShape shape;
    schedule::Style style;
    double step_s;     // of computing, without the end of the step
    std::string name;  // "2 pipelines of 3 and 2 workers"
};

/// The fastest first; of equals those with more pipelines. Empty if the network fits no number of
/// them. Depths of one shape differ by one at most; lanes go by speed.
[[nodiscard]] std::vector<Candidate> candidates(std::int32_t workers, const Manner& manner);

/// What it takes a pipeline to compute so many microbatches, by the same formula.
[[nodiscard]] double pipeline_seconds(const PipelineShape& pipeline, std::int32_t microbatches,
                                      const std::vector<plan::LayerLoad>& layers);

/// Of one forward, one backward: the slowest stage for all microbatches but one, and one through
/// all stages (Huang et al.: GPipe, NeurIPS 2019, section 2.3).
[[nodiscard]] double step_seconds(const RunShape& shape,
                                  const std::vector<plan::LayerLoad>& layers);

}  // namespace rhizome::recover
