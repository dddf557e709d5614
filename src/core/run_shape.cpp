#include "core/run_shape.hpp"

#include <algorithm>
#include <map>

namespace rhizome {

std::size_t RunShape::place_of(WorkerId worker) const {
    const auto found = std::lower_bound(workers.begin(), workers.end(), worker);
    ENSURE(found != workers.end() && *found == worker);
    return static_cast<std::size_t>(found - workers.begin());
}

std::optional<PipelineId> RunShape::pipeline_of(WorkerId worker) const {
    for (std::size_t i = 0; i < pipelines.size(); ++i) {
        for (const StageShape& stage : pipelines[i].stages) {
            if (stage.worker == worker) return PipelineId{static_cast<std::int32_t>(i)};
        }
    }
    return std::nullopt;
}

std::int32_t RunShape::first_microbatch(PipelineId pipeline) const {
    return pipelines[pipeline.index()].lanes.first * lanes.length();
}

std::int32_t RunShape::last_microbatch(PipelineId pipeline) const {
    return pipelines[pipeline.index()].lanes.last * lanes.length();
}

namespace {

std::optional<std::string> find_fault_of_layers(const PipelineShape& pipeline,
                                                const std::string& name, std::int32_t layers) {
    std::int32_t next = 0;
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
        const LayerRange& range = pipeline.stages[s].layers;
        const std::string stage = name + " stage " + std::to_string(s);
        if (range.first != next) {
            return stage + " begins at layer " + std::to_string(range.first) +
                   " (the one before it ends at " + std::to_string(next) + ")";
        }
        if (range.size() <= 0) return stage + " has no layers";
        next = range.last;
    }
    if (next != layers) {
        return name + " ends at layer " + std::to_string(next) + " (the network has " +
               std::to_string(layers) + ")";
    }
    return std::nullopt;
}

}  // namespace

std::optional<std::string> find_fault(const RunShape& shape, std::int32_t layers) {
    if (!std::is_sorted(shape.workers.begin(), shape.workers.end(), std::less_equal<>{})) {
        return "the workers are not ascending";
    }
    if (shape.pipelines.empty()) return "there is no pipeline";
    std::map<WorkerId, std::size_t> pipeline_of;
    std::int32_t next_lane = 0;
    for (std::size_t p = 0; p < shape.pipelines.size(); ++p) {
        const PipelineShape& pipeline = shape.pipelines[p];
        const std::string name = "pipeline " + std::to_string(p);
        if (pipeline.lanes.first != next_lane || pipeline.lanes.size() <= 0) {
            return name + " has lanes " + std::to_string(pipeline.lanes.first) + " to " +
                   std::to_string(pipeline.lanes.last - 1) + " (lane " + std::to_string(next_lane) +
                   " is next)";
        }
        next_lane = pipeline.lanes.last;
        if (auto fault = find_fault_of_layers(pipeline, name, layers)) return fault;
        for (const StageShape& stage : pipeline.stages) {
            std::string worker = "worker ";
            worker += std::to_string(stage.worker.value());
            if (!std::binary_search(shape.workers.begin(), shape.workers.end(), stage.worker)) {
                worker += " is in ";
                worker += name;
                return worker + " and not there";
            }
            if (pipeline_of.try_emplace(stage.worker, p).first->second != p) {
                return worker + " is in two pipelines";
            }
        }
    }
    if (next_lane != shape.lanes.lanes) {
        return "the pipelines have " + std::to_string(next_lane) + " lanes (the step has " +
               std::to_string(shape.lanes.lanes) + ")";
    }
    return std::nullopt;
}

}  // namespace rhizome
