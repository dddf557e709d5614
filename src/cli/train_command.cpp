#include "cli/train_command.hpp"

#include <unistd.h>

#include <algorithm>

#include "cli/progress.hpp"
#include "core/text.hpp"
#include "engine/train_loop.hpp"
#include "model/gpt.hpp"

namespace rhizome::cli {
namespace {

void check_sizes(const RunConfig& config, const data::Datasets& datasets, const Log& log) {
    if (datasets.validation != nullptr && datasets.validation->samples() < config.microbatch_size) {
        throw DataError{
            "the validation set has " + std::to_string(datasets.validation->samples()) +
            " samples (fewer than microbatch_size=" + std::to_string(config.microbatch_size) +
            "), take more validation data or a larger data.validation_share"};
    }
    const std::int64_t samples_per_step =
        std::int64_t{config.microbatches} * config.microbatch_size;
    if (datasets.train->samples() < samples_per_step) {
        log.warn("the training set has " + std::to_string(datasets.train->samples()) +
                 " samples, a step takes " + std::to_string(samples_per_step) +
                 ": every step repeats some");
    }
}

/// Before anything large is allocated: a kernel that runs out later kills without a word.
void check_memory(std::int64_t bytes) {
    const double machine =
        static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
    if (static_cast<double>(bytes) > machine) {
        throw ConfigError{"the run needs " + to_short(static_cast<double>(bytes)) +
                          "B of memory (this machine has " + to_short(machine) +
                          "B), take a smaller model, microbatch_size or lanes, or recompute=all"};
    }
}

std::string summary(const RunConfig& config, const data::Datasets& datasets,
                    const model::Network& network, std::int64_t bytes,
                    const device::Device& device) {
    const auto count = [](std::int64_t number, const char* noun) {
        return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
    };
    std::string text;
    text += "network      " + count(network.size(), "layer") + ", " +
            to_short(static_cast<double>(network.table().parameters())) + " parameters\n";
    text += "data         " + count(datasets.train->samples(), "training sample") + ", " +
            (datasets.validation == nullptr
                 ? std::string{"no validation set"}
                 : count(datasets.validation->samples(), "validation sample")) +
            " of " + std::to_string(config.model.context) + " tokens\n";
    text += "memory       " + to_short(static_cast<double>(bytes)) + "B\n";
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
    const std::int64_t bytes =
        engine::planned_bytes(network, datasets.train->fields(), trainer_config);
    check_memory(bytes);
    const auto device = device::make_reference_device(config.threads);
    write(summary(config, datasets, network, bytes, *device) + "\n");

    engine::Trainer trainer{*device, network, *datasets.train, trainer_config};
    const std::int64_t samples_per_step =
        std::int64_t{config.microbatches} * config.microbatch_size;
    Progress progress{{.steps = config.steps,
                       .tokens_per_step = samples_per_step * config.model.context,
                       .samples_per_step = samples_per_step,
                       .samples_per_pass = datasets.train->samples(),
                       .log_interval = config.log_interval},
                      isatty(output) == 1 ? Screen::terminal : Screen::lines,
                      clock,
                      write};
    engine::train(trainer, datasets.validation.get(),
                  {.steps = config.steps,
                   .evaluate_interval = config.evaluate_interval,
                   .evaluate_microbatches = config.evaluate_microbatches},
                  progress);
    write("\n" + progress.table({{"weights", trainer.digest()}}));
}

}  // namespace rhizome::cli
