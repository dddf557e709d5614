#include "cli/train_command.hpp"

#include <algorithm>
#include <limits>
#include <memory>

#include "cli/memory_limit.hpp"
#include "cli/progress.hpp"
#include "cli/run_layout.hpp"
#include "cli/start_agreement.hpp"
#include "cli/values.hpp"
#include "core/text.hpp"
#include "device/paced.hpp"
#include "engine/state_digest.hpp"
#include "engine/train_loop.hpp"
#include "model/gpt.hpp"
#include "world/paced_world.hpp"

namespace rhizome::cli {
namespace {

std::int64_t samples_per_step(const RunConfig& config) {
    return std::int64_t{config.microbatches} * config.microbatch_size;
}

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
    const double limit = memory_limit_bytes();
    if (needed > limit) {
        throw ConfigError{"the run needs " + how_much + to_short(needed) + "B of memory" +
                          (ranks > 1 ? " for " + std::to_string(ranks) + " ranks here" : "") +
                          " (this process may have " + to_short(limit) +
                          "B), take a smaller model, microbatch_size or lanes, or recompute=all"};
    }
}

/// Before the layout is planned, which takes long for a network that fits nowhere.
void expect_room_for_state(const model::Network& network, const TrainSettings& settings,
                           std::size_t workers) {
    const double state = static_cast<double>(network.table().parameters()) *
                         static_cast<double>(state_bytes_per_element(settings.config));
    check_memory(state * settings.ranks_on_host / static_cast<double>(workers),
                 settings.ranks_on_host, "at least ");
}

engine::RunPlan plan_of(const model::Network& network, const data::Datasets& datasets,
                        const TrainSettings& settings, const world::World& world) {
    expect_room_for_state(network, settings, world.members().size());
    return make_layout(settings.config, network.table(), world.members(),
                       evaluation_microbatches(settings.config, datasets));
}

/// Everything a worker needs, made in the order in which it depends on each other. A mistake of the
/// user is found here.
struct Preparation {
    Preparation(const TrainSettings& settings, world::World& world)
        : datasets{open_data(settings.config)},
          network{model::make_gpt(settings.config.model, settings.config.microbatch_size,
                                  settings.config.precision, settings.config.chunk_elements)},
          plan{plan_of(network, datasets, settings, world)} {
        const RunConfig& config = settings.config;
        memory = engine::Worker::plan_memory(network, datasets.train->fields(), plan, world.self(),
                                             config.microbatch_size);
        // Before anything large is allocated: a kernel that runs out later kills without a word.
        check_memory(static_cast<double>(memory.total()) * settings.ranks_on_host,
                     settings.ranks_on_host, "");
        device = device::make_reference_device(config.threads);
        if (config.device == DeviceKind::paced) {
            device::Pace pace;
            for (const schedule::LayerCost& layer : costs_of(config, network.table()).layers) {
                pace.layers.push_back(
                    {layer.forward_s, layer.backward_input_s, layer.backward_weight_s});
            }
            paced_device = device::make_paced_device(*device, pace, world.clock());
            paced_world =
                world::make_paced_world(world, {.latency_s = config.pace.link_latency_s,
                                                .bytes_per_s = config.pace.link_bytes_per_s});
        }
    }

    [[nodiscard]] device::Device& computing() const {
        return paced_device ? *paced_device : *device;
    }

    data::Datasets datasets;
    model::Network network;
    engine::RunPlan plan;
    engine::MemoryPlan memory{};
    std::unique_ptr<device::Device> device;
    std::unique_ptr<device::Device> paced_device;
    std::unique_ptr<world::World> paced_world;
};

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
    text += layout_text(config, prepared.plan, costs_of(config, network.table()), network.table());
    text += "mathematics  " + mathematics_digest(config, datasets.train_digest) + "\n";
    return text;
}

void warn(const RunConfig& config, const Preparation& prepared, const Log& log) {
    const std::int64_t samples = prepared.datasets.train->samples();
    if (samples < samples_per_step(config)) {
        log.warn("the training set has " + counted(samples, "sample") + ", a step takes " +
                 std::to_string(samples_per_step(config)) + ": every step repeats some");
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

/// What the first member prints, and the others do not.
class Voice final : public engine::TrainObserver {
  public:
    Voice(const TrainSettings& settings, const data::Datasets& datasets, const Clock& clock,
          int output, bool speaks)
        : output_{output} {
        if (!speaks) return;
        const RunConfig& config = settings.config;
        progress_.emplace(
            ProgressConfig{.steps = config.steps,
                           .tokens_per_step = samples_per_step(config) * config.model.context,
                           .samples_per_step = samples_per_step(config),
                           .samples_per_pass = datasets.train->samples(),
                           .log_interval = config.log_interval},
            settings.screen, clock, [output](std::string_view text) { write_all(output, text); });
    }

    void on_step(const engine::StepResult& result) override {
        if (progress_) progress_->on_step(result);
    }
    void on_evaluation(std::int32_t steps, double loss) override {
        if (progress_) progress_->on_evaluation(steps, loss);
    }
    void table(const std::vector<std::pair<std::string, std::string>>& extra) {
        if (progress_) write_all(output_, "\n" + progress_->table(extra));
    }

  private:
    int output_;
    std::optional<Progress> progress_;
};

/// Says once for the run how it ended: in its folder, where the first word holds and the launcher
/// reads it, otherwise here.
void finish(const TrainSettings& settings, const Log& log, ExitCode code,
            const std::string& reason) {
    if (settings.folder) {
        const world::Marked marked = settings.folder->finish(code, reason);
        if (!marked.problem) return;
        log.warn("the run's end could not be written to " + settings.folder->path() + " (" +
                 marked.problem.message() + ")");
    }
    if (code != ExitCode::done) log.error(reason);
}

std::string loss_text(CommStatus status, std::int32_t steps, const RunConfig& config) {
    std::string what = "a worker was lost";
    if (status == CommStatus::revoked) what = "another worker gave it up, see what it said";
    if (status == CommStatus::timed_out) {
        what = "a worker or the device did not answer within bounds.wait_s=" +
               rhizome::to_text(config.bounds.wait_s);
    }
    return "the run ended after " + counted(steps, "step") + " (" + what +
           "), start it again; what it had trained is gone";
}

/// The last agreement: then nobody needs anybody any more.
CommStatus agree_to_end(engine::Worker& worker) {
    engine::Messenger& messenger = worker.messenger();
    const world::Agreement agreement = messenger.world().agree(1, messenger.deadline());
    if (agreement.status == CommStatus::ok && agreement.flags == 0) return CommStatus::revoked;
    return agreement.status;
}

/// The end of a run that trained to its end, or was stopped before it.
ExitCode end_in_order(const TrainSettings& settings, engine::Worker& worker,
                      const Preparation& prepared, const engine::TrainEnd& end, Voice& voice,
                      const Log& log, int output) {
    const engine::DigestEnd digests = engine::gather_digests(worker, prepared.network.table());
    world::World& world = worker.messenger().world();
    const CommStatus status =
        digests.status == CommStatus::ok ? agree_to_end(worker) : digests.status;
    if (status != CommStatus::ok) {
        finish(settings, log, ExitCode::peer_lost,
               loss_text(status, end.steps_done, settings.config));
        return ExitCode::peer_lost;
    }
    if (world.self() != world.members().front()) {
        return end.stopped ? ExitCode::stopped : ExitCode::done;
    }
    if (settings.print_digests) {
        std::string text = "\n";
        for (const engine::ChunkDigest& chunk : digests.chunks) {
            text += chunk.hex + "  " + chunk.name + "\n";
        }
        write_all(output, text);
    }
    voice.table({{"weights", engine::digest_of(digests.chunks)}});
    if (!end.stopped) {
        finish(settings, log, ExitCode::done, "all steps were done");
        return ExitCode::done;
    }
    finish(settings, log, ExitCode::stopped,
           "stopped after " + counted(end.steps_done, "step") + " (somebody asked for it), " +
               "what it had trained is gone");
    return ExitCode::stopped;
}

}  // namespace

bool TrainSettings::hears_stop() const {
    if (stop_asked) return stop_asked();
    return folder && folder->stop_asked();
}

bool TrainSettings::hears_save() const {
    if (save_asked) return save_asked();
    return folder && folder->take_save_word();
}

ExitCode train_command(const TrainSettings& settings, world::World& world, const Log& log,
                       int output) {
    const RunConfig& config = settings.config;
    const bool speaks = world.self() == world.members().front();
    const Nanoseconds patience = to_nanoseconds(config.bounds.wait_s);
    if (speaks) write_all(output, to_text(config) + "\n");

    std::unique_ptr<Preparation> prepared = agree_to_start(
        world, patience, [&] { return std::make_unique<Preparation>(settings, world); });
    if (speaks) {
        warn(config, *prepared, log);
        write_all(output, summary(config, *prepared) + "\n");
    }

    world::World& linked = prepared->paced_world ? *prepared->paced_world : world;
    engine::Worker worker{prepared->computing(),
                          prepared->network,
                          *prepared->datasets.train,
                          prepared->datasets.validation.get(),
                          linked,
                          prepared->plan,
                          {.seed = config.seed,
                           .rows = config.microbatch_size,
                           .optimizer = config.optimizer,
                           .patience = patience,
                           .pulse = settings.pulse}};
    Voice voice{settings, prepared->datasets, world.clock(), output, speaks};
    const auto stop_asked = [&] { return speaks && settings.hears_stop(); };
    const auto on_loss = [&](CommStatus status, std::int32_t steps_done) {
        voice.table({});
        finish(settings, log, ExitCode::peer_lost, loss_text(status, steps_done, config));
    };
    try {
        const engine::TrainEnd end = engine::train(worker,
                                                   {.steps = config.steps,
                                                    .evaluate_interval = config.evaluate_interval,
                                                    .stop_asked = stop_asked,
                                                    .on_loss = on_loss},
                                                   voice);
        if (end.status == CommStatus::ok) {
            return end_in_order(settings, worker, *prepared, end, voice, log, output);
        }
        return ExitCode::peer_lost;
    } catch (const DivergedError& error) {
        // All workers are here: they know the same numbers.
        voice.table({});
        if (speaks) finish(settings, log, ExitCode::diverged, error.what());
        return ExitCode::diverged;
    }
}

}  // namespace rhizome::cli
