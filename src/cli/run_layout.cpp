#include "cli/run_layout.hpp"

#include <algorithm>
#include <numeric>

#include "cli/cost_file.hpp"
#include "cli/values.hpp"
#include "core/text.hpp"
#include "plan/cut.hpp"
#include "plan/ownership.hpp"
#include "plan/shape.hpp"
#include "schedule/dry_run.hpp"

namespace rhizome::cli {
namespace {

plan::Cut hand_cut(const RunConfig& config, const LayerTable& table) {
    const plan::MaybeCut cut =
        plan::parse_cut(config.cut, static_cast<std::int32_t>(table.layers.size()));
    if (const auto* none = std::get_if<plan::NoCut>(&cut)) throw ConfigError{none->message()};
    return std::get<plan::Cut>(cut);
}

RunShape shape_of(const RunConfig& config, const LayerTable& table, const schedule::Costs& costs,
                  const std::vector<WorkerId>& workers) {
    plan::ShapeWish wish{
        .pipelines = {},
        .lanes = LaneShape{config.microbatches, config.lanes},
        .interleave = config.parts,
        .layers = plan::layer_loads(table, costs, state_bytes_per_element(config))};
    for (const std::int32_t depth : config.depths) {
        plan::PipelineWish pipeline{.workers = depth};
        if (!config.cut.empty()) pipeline.cut = hand_cut(config, table);
        wish.pipelines.push_back(pipeline);
    }
    std::vector<plan::WorkerFacts> facts;
    for (const WorkerId worker : workers) facts.push_back({.id = worker});
    return plan::make_shape(facts, wish);
}

std::string range_text(std::int32_t first, std::int32_t last) {
    return last - first == 1 ? std::to_string(first)
                             : std::to_string(first) + "-" + std::to_string(last - 1);
}

std::string pipeline_text(const PipelineShape& pipeline) {
    std::string text;
    for (const StageShape& stage : pipeline.stages) {
        text += (text.empty() ? "" : " | ") + range_text(stage.layers.first, stage.layers.last) +
                " on " + std::to_string(stage.worker.value());
    }
    return "layers " + text + ", lanes " + range_text(pipeline.lanes.first, pipeline.lanes.last);
}

}  // namespace

std::int64_t state_bytes_per_element(const RunConfig& config) {
    return 4 * bytes_of(device::dtype_of(config.precision));
}

std::int32_t workers_needed(const RunConfig& config) {
    return std::accumulate(config.depths.begin(), config.depths.end(), std::int32_t{0});
}

schedule::Costs costs_of(const RunConfig& config, const LayerTable& table) {
    if (!config.costs.empty()) {
        schedule::Costs costs = schedule::costs_of(
            read_cost_table("costs=" + shown(config.costs), config.costs, &table));
        costs.link_latency_s = config.pace.link_latency_s;
        costs.link_bytes_per_s = config.pace.link_bytes_per_s;
        return costs;
    }
    return schedule::estimated_costs(table, config.pace.flops_per_s, config.pace.link_bytes_per_s,
                                     config.pace.link_latency_s);
}

engine::RunPlan make_layout(const RunConfig& config, const LayerTable& table,
                            const schedule::Costs& costs, const std::vector<WorkerId>& workers,
                            std::int32_t evaluation_microbatches) {
    RunShape shape = shape_of(config, table, costs, workers);
    if (const auto misfit = schedule::find_misfit(config.style, shape)) {
        throw ConfigError{"style=" + std::string{schedule::name_of(config.style)} + " (" + *misfit +
                          "), take another style or other pipelines"};
    }
    // What is lost together: for all that is known here, each worker by itself.
    std::vector<plan::FailureDomain> domains;
    for (const WorkerId worker : workers) domains.emplace_back(worker.value());
    const auto all = static_cast<std::int32_t>(workers.size());
    OwnershipMap owners =
        plan::assign_owners(table, shape, domains, config.owners == 0 ? all : config.owners);
    return engine::make_run_plan({.shape = std::move(shape),
                                  .owners = std::move(owners),
                                  .style = config.style,
                                  .recompute = config.recompute,
                                  .evaluation_microbatches = evaluation_microbatches},
                                 table, costs);
}

std::string layout_text(const RunConfig& config, const engine::RunPlan& plan,
                        const schedule::Costs& costs, const LayerTable& table) {
    const RunShape& shape = plan.shape;
    std::string text = "layout       ";
    text += counted(static_cast<std::int64_t>(shape.pipelines.size()), "pipeline") + ", " +
            counted(static_cast<std::int64_t>(shape.workers.size()), "worker") + ", " +
            std::string{schedule::name_of(config.style)};
    if (const auto run = schedule::dry_run(plan.step, costs, {&table, &plan.owners});
        run && shape.workers.size() > 1) {
        text += ", " + to_short(100 * run->bubble_share) + "% bubbles by estimate";
    }
    text += "\n";
    for (std::size_t p = 0; p < shape.pipelines.size(); ++p) {
        text += "  pipeline " + std::to_string(p) + "  " + pipeline_text(shape.pipelines[p]) + "\n";
    }
    const std::size_t owners = plan.owners.chunks.front().owners.size();
    text += "owners       " + std::to_string(owners) + " of each of " +
            counted(static_cast<std::int64_t>(plan.owners.chunks.size()), "chunk") + "\n";
    return text;
}

}  // namespace rhizome::cli
