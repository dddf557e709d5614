#include "engine/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "core/digest.hpp"
#include "core/text.hpp"

namespace rhizome::engine {

using model::Pass;

namespace {

constexpr const char* divergence_hint = "take a lower optimizer.learning_rate or more warm-up";

std::int64_t largest_tensor(const model::Network& network) {
    std::int64_t bytes = 0;
    for (std::int32_t i = 0; i < network.size(); ++i) {
        const model::LayerSpec& spec = network.layer(LayerId{i}).spec();
        for (const auto* specs : {&spec.writes, &spec.saved, &spec.deferred, &spec.scratch}) {
            for (const TensorSpec& tensor : *specs) bytes = std::max(bytes, tensor.bytes());
        }
        for (const auto& parameter : spec.parameters) {
            bytes = std::max(bytes, parameter.spec.bytes());
        }
    }
    return bytes;
}

}  // namespace

MemoryPlan plan_memory(const model::Network& network, std::span<const TensorSpec> fields,
                       const TrainerConfig& config) {
    const LayerTable& table = network.table();
    const auto owned = model::TensorSet::planned_bytes(table, model::TiedTensors::shared);
    const auto by_use = model::TensorSet::planned_bytes(table, model::TiedTensors::separate);
    return {.held = 3 * owned + GradientSum::sets_in_order(config.lanes) * by_use +
                    MicrobatchSlot::planned_bytes(network, fields, config.rows, config.recompute),
            .workspace = largest_tensor(network)};
}

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
      gradient_{device, network.table(), config.lanes},
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
    ENSURE(open_step_ == step && gradient_.complete());
    const LayerTable& table = network_.table();
    gradient_.add_ties(*stream_);
    const model::TensorSet& gradient = gradient_.by_use();
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

std::int64_t Trainer::bytes() const {
    return parameters_.bytes() + moments_.first.bytes() + moments_.second.bytes() +
           gradient_.bytes() + slot_.bytes();
}

std::string Trainer::digest() {
    const LayerTable& table = network_.table();
    Digest digest;
    std::vector<std::byte> bytes;
    for (const TensorRef tensor : table.owned()) {
        for (std::int32_t i = 0; i < table.chunks_of(tensor); ++i) {
            const ChunkRef chunk{tensor, i};
            digest.add_text(table.name_of(tensor) + "#" + std::to_string(i));
            for (const model::TensorSet* set : {&parameters_, &moments_.first, &moments_.second}) {
                const device::Tensor values = set->at(table, chunk);
                bytes.resize(static_cast<std::size_t>(values.bytes()));
                stream_->download(bytes, values);
                stream_->synchronize();
                digest.add(bytes);
            }
        }
    }
    return digest.hex();
}

}  // namespace rhizome::engine
