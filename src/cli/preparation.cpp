#include "cli/preparation.hpp"

#include <algorithm>
#include <limits>

#include "cli/make_device.hpp"
#include "cli/memory_limit.hpp"
#include "cli/run_layout.hpp"
#include "cli/values.hpp"
#include "core/text.hpp"
#include "device/paced.hpp"
#include "engine/snapshot.hpp"
#include "model/gpt.hpp"
#include "world/paced_world.hpp"

namespace rhizome::cli {
namespace {

void check_sizes(const RunConfig& config, const data::Datasets& datasets) {
    if (datasets.validation != nullptr && datasets.validation->samples() < config.microbatch_size) {
        throw DataError{"the validation set has " +
                        counted(datasets.validation->samples(), "sample") +
                        " (fewer than microbatch_size=" + std::to_string(config.microbatch_size) +
                        "), take more validation data, a larger data.validation_share or a "
                        "smaller microbatch_size"};
    }
    const std::int64_t samples = datasets.train->samples();
    const std::int64_t passes = samples_per_step(config) * config.steps / samples;
    if (passes > std::numeric_limits<std::uint32_t>::max()) {
        throw ConfigError{"steps=" + std::to_string(config.steps) + " (" + std::to_string(passes) +
                          " passes over " + counted(samples, "training sample") +
                          ", more than the sampler counts), take fewer"};
    }
}

data::Datasets open_data(const RunConfig& config) {
    data::Datasets datasets =
        data::open_datasets(config.data, config.model.context, config.model.vocabulary);
    check_sizes(config, datasets);
    return datasets;
}

std::int32_t evaluation_microbatches(const RunConfig& config, const data::Datasets& datasets) {
    if (datasets.validation == nullptr) return 0;
    return static_cast<std::int32_t>(
        std::min(std::int64_t{config.evaluate_microbatches},
                 datasets.validation->samples() / config.microbatch_size));
}

void check_memory(double needed, std::int32_t ranks, const std::string& how_much) {
    const std::string who =
        ranks > 1 ? "the run's " + std::to_string(ranks) + " ranks here need" : "the run needs";
    expect_memory(needed, who + how_much,
                  "take a smaller model, microbatch_size or lanes, or recompute=all");
}

/// Before the layout is planned, which takes long for a network that fits nowhere.
void expect_room_for_state(const model::Network& network, const TrainSettings& settings,
                           std::size_t workers) {
    const double state = static_cast<double>(network.table().parameters()) *
                         static_cast<double>(state_bytes_per_element(settings.config));
    check_memory(state * settings.ranks_on_host / static_cast<double>(workers),
                 settings.ranks_on_host, " at least");
}

engine::RunPlan plan_of(const model::Network& network, const schedule::Costs& costs,
                        const data::Datasets& datasets, const TrainSettings& settings,
                        const world::World& world) {
    expect_room_for_state(network, settings, world.members().size());
    return make_layout(settings.config, network.table(), costs, world.members(),
                       evaluation_microbatches(settings.config, datasets));
}

}  // namespace

std::int64_t samples_per_step(const RunConfig& config) {
    return std::int64_t{config.microbatches} * config.microbatch_size;
}

Preparation::Preparation(const TrainSettings& settings, world::World& world)
    : datasets{open_data(settings.config)},
      network{model::make_gpt(settings.config.model, settings.config.microbatch_size,
                              device::dtype_of(settings.config.precision),
                              settings.config.chunk_elements)},
      costs{costs_of(settings.config, network.table())},
      plan{plan_of(network, costs, datasets, settings, world)} {
    const RunConfig& config = settings.config;
    memory = engine::Assignment::plan_memory(network, datasets.train->fields(), plan, world.self(),
                                             config.microbatch_size);
    if (settings.folder) {
        memory.held += engine::Snapshot::planned_bytes(network.table(), plan.owners, world.self());
    }
    memory.workspace *= workspace_tensors(config);
    // Before anything large is allocated: a kernel that runs out later kills without a word.
    check_memory(static_cast<double>(memory.total()) * settings.ranks_on_host,
                 settings.ranks_on_host, "");
    device = make_device(config);
    if (config.device == DeviceKind::paced) {
        device::Pace pace;
        for (const schedule::LayerCost& layer : costs.layers) {
            pace.layers.push_back(
                {layer.forward_s, layer.backward_input_s, layer.backward_weight_s});
        }
        paced_device = device::make_paced_device(*device, pace, world.clock());
        paced_world = world::make_paced_world(world, {.latency_s = config.pace.link_latency_s,
                                                      .bytes_per_s = config.pace.link_bytes_per_s});
    }
}

std::string summary(const RunConfig& config, const Preparation& prepared) {
    const model::Network& network = prepared.network;
    const data::Datasets& datasets = prepared.datasets;
    std::string text;
    text += "network      " + counted(network.size(), "layer") + ", " +
            to_short(static_cast<double>(network.table().parameters())) + " parameters\n";
    text += "data         " + counted(datasets.train->samples(), "training sample") + ", " +
            (datasets.validation == nullptr
                 ? std::string{"no validation set"}
                 : counted(datasets.validation->samples(), "validation sample")) +
            " of " + counted(config.model.context, "token") + "\n";
    text += "memory       " + to_short(static_cast<double>(prepared.memory.total())) + "B\n";
    text += "device       " + prepared.computing().fingerprint() +
            (config.device == DeviceKind::paced ? ", paced" : "") + "\n";
    text += layout_text(config, prepared.plan, prepared.costs, network.table());
    text += "mathematics  " + mathematics_digest(config, datasets.train_digest) + "\n";
    return text;
}

void warn(const TrainSettings& settings, const Preparation& prepared, const Log& log) {
    const RunConfig& config = settings.config;
    const std::int64_t samples = prepared.datasets.train->samples();
    if (samples < samples_per_step(config)) {
        log.warn("the training set has " + counted(samples, "sample") + ", a step takes " +
                 std::to_string(samples_per_step(config)) + ": every step repeats some");
    }
    if (config.timeline && !settings.folder) {
        log.warn("no timeline is recorded (there is no folder for it), give one with --folder");
    }
    const RunShape& shape = prepared.plan.shape;
    std::string spares;
    for (const WorkerId worker : shape.workers) {
        if (shape.pipeline_of(worker)) continue;
        spares += (spares.empty() ? "" : ", ") + std::to_string(worker.value());
    }
    if (!spares.empty()) {
        log.warn("workers without work (pipelines=" + depths_text(config.depths) + " takes " +
                 std::to_string(workers_needed(config)) + " of " +
                 std::to_string(shape.workers.size()) + "), spares: " + spares);
    }
}

}  // namespace rhizome::cli
