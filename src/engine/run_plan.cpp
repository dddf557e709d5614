#include "engine/run_plan.hpp"

#include "plan/shape.hpp"
#include "schedule/check.hpp"

namespace rhizome::engine {
namespace {

/// The same stages, each microbatch a lane. Pipelines for which none is left only keep their
/// workers.
RunShape evaluation_shape(const RunShape& shape, std::int32_t microbatches) {
    RunShape result{
        .workers = shape.workers, .lanes = LaneShape{microbatches, microbatches}, .pipelines = {}};
    const auto pipelines = std::min(static_cast<std::size_t>(microbatches), shape.pipelines.size());
    std::vector<double> speeds;
    for (std::size_t p = 0; p < pipelines; ++p) {
        speeds.push_back(shape.pipelines[p].lanes.size());  // as fast as it was thought to be
    }
    std::int32_t next = 0;
    for (std::size_t p = 0; p < pipelines; ++p) {
        const std::int32_t lanes = plan::share_lanes(microbatches, speeds)[p];
        result.pipelines.push_back({shape.pipelines[p].stages, {next, next + lanes}});
        next += lanes;
    }
    return result;
}

void expect_faultless(const schedule::Schedule& schedule, schedule::Purpose purpose,
                      const LayerTable& table, const OwnershipMap& owners) {
    const auto fault = schedule::find_fault(schedule, purpose, table, owners, {.messages_max = 0});
    if (fault) throw std::logic_error{"a schedule of ours has a fault: " + *fault};
}

}  // namespace

RunPlan make_run_plan(const Layout& layout, const LayerTable& table, const schedule::Costs& costs) {
    const auto step_without = [&](const std::vector<Lane>& kept) {
        schedule::Schedule step = schedule::generate(layout.style, layout.shape, kept);
        if (layout.recompute == Recompute::all) step = schedule::with_recomputation(step);
        step = schedule::with_step_end(schedule::with_wires(step, costs), table, layout.owners);
        expect_faultless(step, schedule::Purpose::training, table, layout.owners);
        return step;
    };
    RunPlan plan{.shape = layout.shape,
                 .owners = layout.owners,
                 .style = layout.style,
                 .step = step_without({}),
                 .rest = {},
                 .evaluation = {}};
    if (!layout.kept.empty()) plan.rest = step_without(layout.kept);
    if (layout.evaluation_microbatches > 0) {
        plan.evaluation =
            schedule::full_step(schedule::Style::evaluation,
                                evaluation_shape(layout.shape, layout.evaluation_microbatches),
                                costs, table, layout.owners);
        expect_faultless(*plan.evaluation, schedule::Purpose::evaluation, table, layout.owners);
    }
    return plan;
}

}  // namespace rhizome::engine
