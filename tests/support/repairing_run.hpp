// A worker of a run that goes on after losses, on any world.
#pragma once

#include <algorithm>
#include <vector>

#include "engine/repair.hpp"
#include "support/engine_run.hpp"

namespace rhizome::tests {

inline engine::RepairConfig repair_config(const Subject& subject, const Arrangement& arrangement,
                                          const RunLength& length) {
    const LayerTable& table = subject.network.table();
    const auto layers = static_cast<std::int32_t>(table.layers.size());
    const schedule::Costs costs = schedule::equal_costs(layers);
    return {.facts = {.table = table,
                      .manner = {.lanes = subject.lanes,
                                 .layers = plan::layer_loads(table, costs, 16),
                                 .depth_min = *std::min_element(arrangement.depths.begin(),
                                                                arrangement.depths.end()),
                                 .style = arrangement.style,
                                 .parts = arrangement.parts},
                      .redundancy = arrangement.owners},
            .costs = costs,
            .recompute = arrangement.recompute,
            .evaluation_microbatches = length.evaluation_microbatches,
            .at_most = std::chrono::seconds{600}};
}

/// What a survivor has to show.
struct SurvivorEnd : WorkerEnd {
    std::vector<engine::RepairRecord> repairs;
};

/// Collects what an observer is told, for a WorkerEnd.
class SurvivorTrace final : public engine::TrainObserver {
  public:
    explicit SurvivorTrace(SurvivorEnd& end) : end_{end} {}
    void on_step(const engine::StepResult& result) override {
        // After a return to an older state steps come again.
        const auto step = static_cast<std::size_t>(result.step.value());
        end_.trace.losses.resize(step);
        end_.trace.norms.resize(step);
        end_.trace.on_step(result);
    }
    void on_evaluation(std::int32_t steps, double loss) override { evaluations[steps] = loss; }
    void on_repair(const engine::RepairRecord& record) override {
        end_.repairs.push_back(record);
    }
    std::map<std::int32_t, double> evaluations;

  private:
    SurvivorEnd& end_;
};

inline SurvivorEnd run_survivor(world::World& world, const Subject& subject,
                                const Arrangement& arrangement, const RunLength& length,
                                Nanoseconds patience, const engine::Probe& probe = {}) {
    const auto device = subject.make_device(subject.threads);
    const LayerTable& table = subject.network.table();
    const engine::RunPlan plan =
        plan_of(arrangement, table, world.members(), subject.lanes, length.evaluation_microbatches);
    const engine::RepairConfig repair = repair_config(subject, arrangement, length);
    engine::Worker worker{*device,
                          subject.network,
                          subject.data,
                          &subject.data,
                          world,
                          plan,
                          {.seed = 1234,
                           .rows = subject.rows,
                           .optimizer = small_optimizer(),
                           .patience = patience,
                           .probe = probe}};
    SurvivorEnd result;
    SurvivorTrace trace{result};
    engine::TrainLoopConfig loop{.steps = length.steps,
                                 .evaluate_interval = length.evaluate_interval,
                                 .repair = &repair};
    loop.part = [&] {
        engine::DigestEnd digests = engine::gather_digests(worker, table);
        result.chunks = std::move(digests.chunks);
        // Then nobody needs anybody any more.
        if (digests.status != CommStatus::ok) return digests.status;
        return worker.agree(engine::vote::all).status;
    };
    result.end = engine::train(worker, loop, trace);
    for (const auto& [steps, loss] : trace.evaluations) result.trace.evaluations.push_back(loss);
    result.committed_steps = worker.committed_steps();
    result.owned = owned_digests(worker, table);
    return result;
}

}  // namespace rhizome::tests
