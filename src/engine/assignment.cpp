#include "engine/assignment.hpp"

#include <algorithm>
#include <utility>

namespace rhizome::engine {
namespace {

std::vector<LayerRange> layers_of(const RunShape& shape, WorkerId self) {
    std::vector<LayerRange> layers;
    for (const PipelineShape& pipeline : shape.pipelines) {
        for (const StageShape& stage : pipeline.stages) {
            if (stage.worker == self) layers.push_back(stage.layers);
        }
    }
    return layers;
}

/// All lists use the same memory, one after the other; null where there is none.
std::map<StageId, StageMemory::Counts> counts_of(const Program& step,
                                                 std::initializer_list<const Program*> others) {
    auto counts = step.counts;
    for (const Program* const program : others) {
        if (program == nullptr) continue;
        for (const auto& [stage, needed] : program->counts) {
            StageMemory::Counts& count = counts.at(stage);
            count.slots = std::max(count.slots, needed.slots);
            count.work_areas = std::max(count.work_areas, needed.work_areas);
        }
    }
    return counts;
}

Program step_program(const RunPlan& plan, WorkerId self) { return compile(plan.step, self, 0); }

std::optional<Program> rest_program(const RunPlan& plan, WorkerId self) {
    return plan.rest ? std::optional{compile(*plan.rest, self, 0)} : std::nullopt;
}

Program evaluation_program(const RunPlan& plan, WorkerId self) {
    return plan.evaluation ? compile(*plan.evaluation, self, world::World::tag_max / 2) : Program{};
}

std::int32_t evaluation_microbatches(const RunPlan& plan) {
    return plan.evaluation ? plan.evaluation->shape.lanes.microbatches : 0;
}

/// Numbers beside tensors: losses by microbatch, sums of squares by chunk.
struct Scalars {
    std::int64_t losses;
    std::int64_t evaluation_losses;
    std::int64_t squares;

    [[nodiscard]] std::int64_t all() const { return losses + evaluation_losses + squares; }
};

Scalars scalars_of(const RunPlan& plan, const Parts& step_parts) {
    return {.losses = plan.shape.lanes.microbatches,
            .evaluation_losses = evaluation_microbatches(plan),
            .squares =
                std::max<std::int64_t>(1, static_cast<std::int64_t>(step_parts.chunks().size()))};
}

}  // namespace

Assignment::Assignment(device::Device& device, device::Stream& stream,
                       const model::Network& network, std::span<const TensorSpec> fields,
                       RunPlan its_plan, WorkerId self, std::int32_t rows)
    : plan{std::move(its_plan)},
      step{step_program(plan, self)},
      rest{rest_program(plan, self)},
      evaluation{evaluation_program(plan, self)},
      state{device, network.table(), layers_of(plan.shape, self), plan.owners, self},
      exchange{device,
               network.table(),
               plan.shape,
               plan.owners,
               self,
               state,
               plan.step.programs[plan.shape.place_of(self)]},
      step_parts{plan.shape, &plan.owners, self} {
    if (plan.evaluation) evaluation_parts.emplace(plan.evaluation->shape, nullptr, self);
    const Scalars scalars = scalars_of(plan, step_parts);
    scalars_ = device.allocate(scalars.all() * bytes_of(DType::f64));
    const device::Tensor whole = scalars_.at(0, {"scalars", Shape{scalars.all()}, DType::f64});
    losses = whole.slice(0, scalars.losses);
    if (plan.evaluation) {
        evaluation_losses = whole.slice(scalars.losses, scalars.evaluation_losses);
    }
    squares = whole.slice(scalars.losses + scalars.evaluation_losses, scalars.squares);
    add_stages(device, stream, network, fields, self, rows);
}

void Assignment::add_stages(device::Device& device, device::Stream& stream,
                            const model::Network& network, std::span<const TensorSpec> fields,
                            WorkerId self, std::int32_t rows) {
    const auto pipeline_id = plan.shape.pipeline_of(self);
    if (!pipeline_id) return;
    const PipelineShape& pipeline = plan.shape.pipelines[pipeline_id->index()];
    const auto counts = counts_of(step, {&evaluation, rest ? &*rest : nullptr});
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
        auto& stage = stages.emplace_back();
        if (pipeline.stages[s].worker != self) continue;
        stage = std::make_unique<Stage>(device, stream, network, pipeline.stages[s].layers, fields,
                                        rows, counts.at(StageId{static_cast<std::int32_t>(s)}),
                                        plan.shape.lanes, pipeline.lanes);
    }
}

std::vector<bool> Assignment::lanes_done() const {
    std::vector<std::vector<bool>> done;
    for (const auto& stage : stages) {
        if (stage) done.push_back(stage->gradients().lanes_done());
    }
    if (!done.empty()) return common_lanes(done);
    return std::vector<bool>(static_cast<std::size_t>(plan.shape.lanes.lanes));
}

void Assignment::drop_memory() {
    for (const auto& stage : stages) {
        if (stage) stage->drop_memory();
    }
}

void Assignment::take_lanes(device::Stream& stream, Assignment& before) {
    ENSURE(plan.rest.has_value());
    if (stages.empty()) return;  // a spare now
    // Let go of in an attempt at a new shape, which another loss broke off. The report has said
    // that no lane is done here, so none is kept; who came less far in that attempt may keep some.
    if (before.stages.empty()) return;
    ENSURE(stages.size() == before.stages.size());
    for (std::size_t s = 0; s < stages.size(); ++s) {
        if (!stages[s]) continue;
        ENSURE(before.stages[s] && before.stages[s]->layers() == stages[s]->layers());
        stages[s]->gradients().take(before.stages[s]->gradients(), plan.rest->kept);
    }
    stream.copy(losses, before.losses);
}

MemoryPlan Assignment::plan_memory(const model::Network& network,
                                   std::span<const TensorSpec> fields, const RunPlan& plan,
                                   WorkerId self, std::int32_t rows) {
    const LayerTable& table = network.table();
    const Scalars scalars = scalars_of(plan, Parts{plan.shape, &plan.owners, self});
    MemoryPlan memory{
        .held =
            scalars.all() * bytes_of(DType::f64) +
            WorkerState::planned_bytes(network, layers_of(plan.shape, self), plan.owners, self) +
            ChunkExchange::planned_bytes(table, plan.shape, plan.owners, self,
                                         plan.step.programs[plan.shape.place_of(self)]),
        .workspace = model::largest_tensor(network)};
    if (const auto id = plan.shape.pipeline_of(self)) {
        const PipelineShape& pipeline = plan.shape.pipelines[id->index()];
        const Program evaluation = evaluation_program(plan, self);
        const auto counts = counts_of(step_program(plan, self), {&evaluation});
        for (const auto& [stage, count] : counts) {
            const LayerRange layers = pipeline.stages[stage.index()].layers;
            memory.held += StageMemory::planned_bytes(network, layers, fields, rows, count);
            memory.held += GradientSum::sets_in_order(plan.shape.lanes, pipeline.lanes) *
                           model::TensorSet::planned_bytes(table, model::TiedTensors::separate,
                                                           std::span{&layers, 1});
        }
    }
    return memory;
}

}  // namespace rhizome::engine
