#include "cli/train_command.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <limits>

#include "cli/memory_limit.hpp"
#include "cli/progress.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "engine/train_loop.hpp"
#include "model/gpt.hpp"

namespace rhizome::cli {
namespace {

std::string count(std::int64_t number, const std::string& noun) {
    return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

std::int64_t samples_per_step(const RunConfig& config) {
    return std::int64_t{config.microbatches} * config.microbatch_size;
}

void check_sizes(const RunConfig& config, const data::Datasets& datasets, const Log& log) {
    if (datasets.validation != nullptr && datasets.validation->samples() < config.microbatch_size) {
        throw DataError{"the validation set has " +
                        count(datasets.validation->samples(), "sample") +
                        " (fewer than microbatch_size=" + std::to_string(config.microbatch_size) +
                        "), take more validation data, a larger data.validation_share or a "
                        "smaller microbatch_size"};
    }
    const std::int64_t samples = datasets.train->samples();
    const std::int64_t passes = samples_per_step(config) * config.steps / samples;
    if (passes > std::numeric_limits<std::uint32_t>::max()) {
        throw ConfigError{"steps=" + std::to_string(config.steps) + " (" + std::to_string(passes) +
                          " passes over " + count(samples, "training sample") +
                          ", more than the sampler counts), take fewer"};
    }
    if (samples < samples_per_step(config)) {
        log.warn("the training set has " + count(samples, "sample") + ", a step takes " +
                 std::to_string(samples_per_step(config)) + ": every step repeats some");
    }
}

/// Before anything large is allocated: a kernel that runs out later kills without a word.
void check_memory(const engine::MemoryPlan& plan) {
    const double limit = memory_limit_bytes();
    if (static_cast<double>(plan.total()) > limit) {
        throw ConfigError{"the run needs " + to_short(static_cast<double>(plan.total())) +
                          "B of memory (this process may have " + to_short(limit) +
                          "B), take a smaller model, microbatch_size or lanes, or recompute=all"};
    }
}

Screen screen_of(int output) {
    if (isatty(output) != 1) return {};
    winsize size{};
    if (ioctl(output, TIOCGWINSZ, &size) != 0 || size.ws_col < 2) {
        return {Screen::Kind::terminal};
    }
    return {Screen::Kind::terminal, size.ws_col};
}

std::string summary(const RunConfig& config, const data::Datasets& datasets,
                    const model::Network& network, const engine::MemoryPlan& plan,
                    const device::Device& device) {
    std::string text;
    text += "network      " + count(network.size(), "layer") + ", " +
            to_short(static_cast<double>(network.table().parameters())) + " parameters\n";
    text += "data         " + count(datasets.train->samples(), "training sample") + ", " +
            (datasets.validation == nullptr
                 ? std::string{"no validation set"}
                 : count(datasets.validation->samples(), "validation sample")) +
            " of " + count(config.model.context, "token") + "\n";
    text += "memory       " + to_short(static_cast<double>(plan.total())) + "B\n";
    text += "device       " + device.fingerprint() + "\n";
    text += "mathematics  " + mathematics_digest(config, datasets.train_digest) + "\n";
    return text;
}

}  // namespace

void train_command(const RunConfig& config, const Clock& clock, const Log& log, int output) {
    const auto write = [output](std::string_view text) { write_all(output, text); };
    write(to_text(config) + "\n");

    const data::Datasets datasets =
        data::open_datasets(config.data, config.model.context, config.model.vocabulary);
    check_sizes(config, datasets, log);
    const model::Network network = model::make_gpt(config.model, config.microbatch_size,
                                                   config.precision, config.chunk_elements);
    const engine::TrainerConfig trainer_config{
        .seed = config.seed,
        .rows = config.microbatch_size,
        .lanes = LaneShape{config.microbatches, config.lanes},
        .optimizer = config.optimizer,
        .recompute = config.recompute};
    const engine::MemoryPlan plan =
        engine::plan_memory(network, datasets.train->fields(), trainer_config);
    check_memory(plan);
    const auto device = device::make_reference_device(config.threads);
    write(summary(config, datasets, network, plan, *device) + "\n");

    engine::Trainer trainer{*device, network, *datasets.train, trainer_config};
    Progress progress{{.steps = config.steps,
                       .tokens_per_step = samples_per_step(config) * config.model.context,
                       .samples_per_step = samples_per_step(config),
                       .samples_per_pass = datasets.train->samples(),
                       .log_interval = config.log_interval},
                      screen_of(output),
                      clock,
                      write};
    try {
        engine::train(trainer, datasets.validation.get(),
                      {.steps = config.steps,
                       .evaluate_interval = config.evaluate_interval,
                       .evaluate_microbatches = config.evaluate_microbatches},
                      progress);
    } catch (const DivergedError&) {
        write("\n" + progress.table({}));
        throw;
    }
    write("\n" + progress.table({{"weights", trainer.digest()}}));
}

}  // namespace rhizome::cli
