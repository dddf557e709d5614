// Steps of the engine on a paced device, and the dry run of the same schedule.
#pragma once

#include "device/paced.hpp"
#include "schedule/dry_run.hpp"
#include "support/engine_run.hpp"

namespace rhizome::tests {

/// A described accelerator: the same for all layers, in seconds of one direction.
struct Accelerator {
    double layer_s = 1e-3;
    double link_latency_s = 20e-6;
    double link_bytes_per_s = 1e9;
    double update_s_per_element = 0;
};

inline schedule::Costs costs_of(const Accelerator& accelerator, const LayerTable& table) {
    schedule::Costs costs;
    for (const LayerFacts& layer : table.layers) {
        costs.layers.push_back({.forward_s = accelerator.layer_s,
                                .backward_input_s = accelerator.layer_s,
                                .backward_weight_s = accelerator.layer_s,
                                .wire_bytes = layer.costs.output_bytes});
    }
    costs.link_latency_s = accelerator.link_latency_s;
    costs.link_bytes_per_s = accelerator.link_bytes_per_s;
    costs.update_s_per_element = accelerator.update_s_per_element;
    return costs;
}

inline device::Pace pace_of(const schedule::Costs& costs) {
    device::Pace pace;
    for (const schedule::LayerCost& layer : costs.layers) {
        pace.layers.push_back({layer.forward_s, layer.backward_input_s, layer.backward_weight_s});
    }
    pace.update_s_per_element = costs.update_s_per_element;
    return pace;
}

/// A worker on such an accelerator. The links must be paced by the world.
struct PacedWorker {
    PacedWorker(world::World& world, const SmallOptions& options, const Arrangement& arrangement,
                const Accelerator& accelerator)
        : inner{device::make_reference_device(1)},
          network{network_of(options)},
          text{small_text()},
          device{device::make_paced_device(*inner, pace_of(costs_of(accelerator, network.table())),
                                           world.clock())},
          worker{*device,
                 network,
                 text,
                 nullptr,
                 world,
                 plan_of(arrangement, network.table(), world.members(), options.lanes, 0),
                 {.seed = 1234,
                  .rows = options.rows,
                  .optimizer = small_optimizer(),
                  .patience = std::chrono::seconds{60}}} {}

    std::unique_ptr<device::Device> inner;
    model::Network network;
    MemoryText text;
    std::unique_ptr<device::Device> device;
    engine::Worker worker;
};

/// Seconds of each step on this worker's clock.
inline std::vector<double> paced_steps(world::World& world, const SmallOptions& options,
                                       const Arrangement& arrangement,
                                       const Accelerator& accelerator, std::int32_t steps) {
    PacedWorker paced{world, options, arrangement, accelerator};
    std::vector<double> seconds;
    for (std::int32_t step = 0; step < steps; ++step) {
        const Nanoseconds begin = world.clock().now();
        const engine::StepEnd end = paced.worker.run_step(Step{step}, engine::vote::all);
        if (end.status != CommStatus::ok) return {};
        seconds.push_back(std::chrono::duration<double>(world.clock().now() - begin).count());
    }
    return seconds;
}

/// What the dry run says of the same step.
inline schedule::DryRun dry_run_of(const SmallOptions& options, const Arrangement& arrangement,
                                   const Accelerator& accelerator, std::int32_t workers) {
    const model::Network network = network_of(options);
    std::vector<WorkerId> all;
    for (std::int32_t w = 0; w < workers; ++w) all.emplace_back(w);
    const engine::RunPlan plan = plan_of(arrangement, network.table(), all, options.lanes, 0);
    const auto run = schedule::dry_run(plan.step, costs_of(accelerator, network.table()),
                                       {&network.table(), &plan.owners});
    ENSURE(run.has_value());
    return *run;
}

}  // namespace rhizome::tests
