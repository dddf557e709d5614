#include "recover/shapes.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "core/text.hpp"

namespace rhizome::recover {
namespace {

/// So many pipelines of so many workers, the deeper ones first.
std::vector<std::int32_t> even_depths(std::int32_t workers, std::int32_t pipelines) {
    std::vector<std::int32_t> depths(static_cast<std::size_t>(pipelines), workers / pipelines);
    for (std::int32_t p = 0; p < workers % pipelines; ++p) ++depths[static_cast<std::size_t>(p)];
    return depths;
}

std::string name_of(const std::vector<std::int32_t>& depths) {
    const auto pipelines = static_cast<std::int64_t>(depths.size());
    if (depths.front() == depths.back()) {
        return counted(pipelines, "pipeline") + " of " + counted(depths.front(), "worker");
    }
    const auto deep = std::count(depths.begin(), depths.end(), depths.front());
    return counted(pipelines, "pipeline") + ", " + std::to_string(deep) + " of " +
           counted(depths.front(), "worker") + " and " + std::to_string(pipelines - deep) + " of " +
           std::to_string(depths.back());
}

std::optional<RunShape> try_shape(std::int32_t workers, const std::vector<std::int32_t>& depths,
                                  std::int32_t parts, const Manner& manner) {
    std::vector<plan::WorkerFacts> facts;
    for (std::int32_t w = 0; w < workers; ++w) facts.push_back({.id = WorkerId{w}});
    plan::ShapeWish wish{
        .pipelines = {}, .lanes = manner.lanes, .interleave = parts, .layers = manner.layers};
    for (const std::int32_t depth : depths) wish.pipelines.push_back({.workers = depth});
    try {
        return plan::make_shape(facts, wish);
    } catch (const ConfigError&) {
        return std::nullopt;  // more stages than layers, too little memory
    }
}

std::optional<Candidate> try_candidate(std::int32_t workers,
                                       const std::vector<std::int32_t>& depths,
                                       const Manner& manner) {
    auto style = manner.style;
    auto shape = try_shape(workers, depths, manner.parts, manner);
    if (!shape || schedule::find_misfit(style, *shape)) {
        style = schedule::Style::one_f_one_b;
        shape = try_shape(workers, depths, 1, manner);
    }
    if (!shape) return std::nullopt;
    const double step_s = step_seconds(*shape, manner.layers);
    return Candidate{
        .shape = *std::move(shape), .style = style, .step_s = step_s, .name = name_of(depths)};
}

}  // namespace

double pipeline_seconds(const PipelineShape& pipeline, std::int32_t microbatches,
                        const std::vector<plan::LayerLoad>& layers) {
    if (microbatches == 0) return 0;
    double all = 0;
    std::map<WorkerId, double> by_worker;  // who may have several stages
    for (const StageShape& stage : pipeline.stages) {
        const double seconds = plan::stage_seconds(layers, stage.layers, {});
        all += seconds;
        by_worker[stage.worker] += seconds;
    }
    double bound = 0;
    for (const auto& [worker, seconds] : by_worker) bound = std::max(bound, seconds);
    return all + bound * (microbatches - 1);
}

double step_seconds(const RunShape& shape, const std::vector<plan::LayerLoad>& layers) {
    double slowest = 0;
    for (const PipelineShape& pipeline : shape.pipelines) {
        const std::int32_t microbatches = pipeline.lanes.size() * shape.lanes.length();
        slowest = std::max(slowest, pipeline_seconds(pipeline, microbatches, layers));
    }
    return slowest;
}

std::vector<Candidate> candidates(std::int32_t workers, const Manner& manner) {
    const auto layers = static_cast<std::int32_t>(manner.layers.size());
    const std::int32_t depth_min = std::min({manner.depth_min, workers, layers});
    std::vector<Candidate> found;
    for (std::int32_t p = std::min(manner.lanes.lanes, workers / depth_min); p >= 1; --p) {
        // All workers, as far as there are layers for them; and all pipelines alike, where that
        // leaves somebody out.
        std::vector<std::vector<std::int32_t>> wishes{
            even_depths(std::min(workers, p * layers), p)};
        if (workers % p != 0 && workers / p < layers) {
            wishes.push_back(even_depths(workers / p * p, p));
        }
        for (const auto& depths : wishes) {
            if (auto candidate = try_candidate(workers, depths, manner)) {
                found.push_back(*std::move(candidate));
            }
        }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Candidate& a, const Candidate& b) { return a.step_s < b.step_s; });
    return found;
}

}  // namespace rhizome::recover
