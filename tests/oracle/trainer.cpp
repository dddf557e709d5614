#include "oracle/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "core/text.hpp"

namespace rhizome::oracle {

using model::Pass;

namespace {

std::vector<LayerRange> layers_of(const model::Network& network) { return {{0, network.size()}}; }

constexpr const char* divergence_hint = "take a lower optimizer.learning_rate or more warm-up";

}  // namespace

Trainer::Trainer(device::Device& device, const model::Network& network,
                 const data::Dataset& dataset, const TrainerConfig& config)
    : network_{network},
      dataset_{dataset},
      config_{config},
      sampler_{config.seed, dataset.samples(), config.lanes.microbatches, config.rows},
      device_{device},
      stream_{device.make_stream()},
      parameters_{device, network.table(), model::TiedTensors::shared},
      moments_{device, *stream_, network.table()},
      gradient_{device, network.table(), layers_of(network), config.lanes, {0, config.lanes.lanes}},
      slot_{device, network, dataset.fields(), config.rows, config.recompute},
      loss_parts_(static_cast<std::size_t>(config.lanes.microbatches)) {
    model::initialize(*stream_, network_, config_.seed, parameters_);
}

std::vector<std::int64_t> Trainer::samples_of(Step step, Microbatch microbatch) const {
    std::vector<std::int64_t> samples;
    for (std::int32_t row = 0; row < config_.rows; ++row) {
        samples.push_back(sampler_.sample(step, microbatch, row));
    }
    return samples;
}

void Trainer::begin_step(Step step) {
    open_step_ = step;
    loss_terms_ = 0;
    for (std::int32_t m = 0; m < config_.lanes.microbatches; ++m) {
        for (const std::int64_t sample : samples_of(step, Microbatch{m})) {
            loss_terms_ += dataset_.loss_terms(sample);
        }
    }
    ENSURE(loss_terms_ > 0);
}

void Trainer::run_microbatch(Step step, Microbatch microbatch) {
    if (!open_step_) begin_step(step);
    ENSURE(open_step_ == step);
    const Pass pass{.mode = Pass::Mode::train,
                    .seed = config_.seed,
                    .step = step,
                    .microbatch = microbatch,
                    .gradient_scale = 1.0 / static_cast<double>(loss_terms_)};
    const model::TensorSet& sum = gradient_.accumulator(*stream_, microbatch);
    slot_.load(*stream_, dataset_, samples_of(step, microbatch));
    for (std::int32_t layer = 0; layer < network_.size(); ++layer) {
        slot_.forward(*stream_, pass, LayerId{layer}, parameters_);
    }
    loss_parts_[microbatch.index()] = slot_.loss(*stream_);
    for (std::int32_t layer = network_.size() - 1; layer >= 0; --layer) {
        slot_.backward_input(*stream_, pass, LayerId{layer}, parameters_);
        slot_.backward_weight(*stream_, pass, LayerId{layer}, parameters_, sum);
    }
    gradient_.done(*stream_, microbatch);
}

double Trainer::mean_loss() const {
    double sum = 0;
    for (const double part : loss_parts_) sum += part;
    return sum / static_cast<double>(loss_terms_);
}

StepResult Trainer::finish_step(Step step) {
    ENSURE(open_step_ == step && gradient_.complete(all_lanes()));
    const LayerTable& table = network_.table();
    const model::TensorSet& gradient = gradient_by_use();
    for (const auto& [owner, use] : table.ties()) {
        stream_->add(gradient.at(owner), gradient.at(owner), gradient.at(use));
    }
    const StepResult result{step, mean_loss(), norm_of(gradient),
                            model::learning_rate(config_.optimizer, step)};
    open_step_.reset();
    if (!std::isfinite(result.loss) || !std::isfinite(result.gradient_norm)) {
        gradient_.clear();
        throw DivergedError{"training diverged after " + std::to_string(step.value()) +
                            " steps (loss " + to_text(result.loss) + ", gradient norm " +
                            to_text(result.gradient_norm) + " in the next), " + divergence_hint};
    }
    for (const TensorRef tensor : table.owned()) {
        const device::AdamWStep constants = model::adamw_step(
            config_.optimizer, step, result.gradient_norm, table.at(tensor).decay);
        for (std::int32_t i = 0; i < table.chunks_of(tensor); ++i) {
            const ChunkRef chunk{tensor, i};
            stream_->adamw(parameters_.at(table, chunk), moments_.first.at(table, chunk),
                           moments_.second.at(table, chunk), gradient.at(table, chunk), constants);
        }
    }
    stream_->synchronize();
    gradient_.clear();
    return result;
}

StepResult Trainer::run_step(Step step) {
    for (std::int32_t m = 0; m < config_.lanes.microbatches; ++m) {
        run_microbatch(step, Microbatch{m});
    }
    return finish_step(step);
}

double Trainer::norm_of(const model::TensorSet& set) {
    double squares = 0;
    for (const double part : model::squares_by_chunk(device_, *stream_, network_.table(), set)) {
        squares += part;
    }
    return std::sqrt(squares);
}

void Trainer::expect_finite_parameters() {
    const double norm = norm_of(parameters_);
    if (!std::isfinite(norm)) {
        throw DivergedError{std::string{"training diverged in its last step (the parameters' norm "
                                        "is "} +
                            to_text(norm) + "), " + divergence_hint};
    }
}

double Trainer::evaluate(const data::Dataset& dataset, std::int64_t microbatches_max) {
    ENSURE(dataset.samples() >= config_.rows && microbatches_max > 0);
    const std::int64_t microbatches = std::min(microbatches_max, dataset.samples() / config_.rows);
    double loss = 0;
    std::int64_t terms = 0;
    for (std::int64_t m = 0; m < microbatches; ++m) {
        std::vector<std::int64_t> samples;
        for (std::int64_t row = 0; row < config_.rows; ++row) {
            samples.push_back(m * config_.rows + row);
            terms += dataset.loss_terms(samples.back());
        }
        const Pass pass{.mode = Pass::Mode::evaluate,
                        .seed = config_.seed,
                        .step = Step{0},
                        .microbatch = Microbatch{0},
                        .gradient_scale = 1.0};
        slot_.load(*stream_, dataset, samples);
        for (std::int32_t layer = 0; layer < network_.size(); ++layer) {
            slot_.forward(*stream_, pass, LayerId{layer}, parameters_);
        }
        loss += slot_.loss(*stream_);
    }
    const double mean = loss / static_cast<double>(terms);
    if (!std::isfinite(mean)) {
        throw DivergedError{"training diverged (the validation loss is " + to_text(mean) + "), " +
                            divergence_hint};
    }
    return mean;
}

std::vector<engine::ChunkDigest> Trainer::chunk_digests() {
    const LayerTable& table = network_.table();
    std::vector<engine::ChunkDigest> digests;
    for (const TensorRef tensor : table.owned()) {
        for (std::int32_t i = 0; i < table.chunks_of(tensor); ++i) {
            const ChunkRef chunk{tensor, i};
            digests.push_back({engine::chunk_name(table, chunk),
                               engine::digest_of_chunk(*stream_, parameters_.at(table, chunk),
                                                       moments_.first.at(table, chunk),
                                                       moments_.second.at(table, chunk))});
        }
    }
    return digests;
}

}  // namespace rhizome::oracle
