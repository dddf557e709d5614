// Everything that a worker needs before its first step: data, network, plan, devices. What the user
// did wrong is found here, before anything large is allocated.
#pragma once

#include <memory>

#include "cli/train_command.hpp"
#include "data/text_data.hpp"
#include "device/device.hpp"
#include "engine/run_plan.hpp"
#include "engine/worker.hpp"
#include "model/network.hpp"

namespace rhizome::cli {

[[nodiscard]] std::int64_t samples_per_step(const RunConfig& config);

/// Made in the order in which its parts depend on each other. The constructor throws UserError.
struct Preparation {
    Preparation(const TrainSettings& settings, world::World& world);

    [[nodiscard]] device::Device& computing() const {
        return paced_device ? *paced_device : *device;
    }

    data::Datasets datasets;
    model::Network network;
    schedule::Costs costs;
    engine::RunPlan plan;
    engine::MemoryPlan memory{};
    std::unique_ptr<device::Device> device;
    std::unique_ptr<device::Device> paced_device;
    std::unique_ptr<world::World> paced_world;
};

/// Lines for people, before the first step.
[[nodiscard]] std::string summary(const RunConfig& config, const Preparation& prepared);
/// Of what is allowed and seldom meant.
void warn(const TrainSettings& settings, const Preparation& prepared, const Log& log);

}  // namespace rhizome::cli
