#include "model/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rhizome::model {

double learning_rate(const OptimizerConfig& config, Step step) {
    const double peak = config.learning_rate;
    const double last = config.final_learning_rate;
    if (step.value() < config.warmup_steps) {
        return peak * (static_cast<double>(step.value()) + 1) / config.warmup_steps;
    }
    if (step.value() >= config.decay_steps) return last;
    const double progress = static_cast<double>(step.value() - config.warmup_steps) /
                            (config.decay_steps - config.warmup_steps);
    return last + (peak - last) * (1 + std::cos(std::numbers::pi * progress)) / 2;
}

double clip_scale(const OptimizerConfig& config, double norm) {
    if (config.clip_norm == 0.0) return 1.0;
    return std::min(1.0, config.clip_norm / (norm + 1e-6));
}

device::AdamWStep adamw_step(const OptimizerConfig& config, Step step, double norm, Decay decay) {
    const double t = step.value() + 1.0;
    return {.rate = learning_rate(config, step),
            .decay = decay == Decay::weight ? config.weight_decay : 0.0,
            .beta1 = config.beta1,
            .beta2 = config.beta2,
            .epsilon = config.epsilon,
            .gradient_scale = clip_scale(config, norm),
            .first_correction = 1.0 - std::pow(config.beta1, t),
            .second_correction = 1.0 - std::pow(config.beta2, t)};
}

Moments::Moments(device::Device& device, device::Stream& stream, const LayerTable& table)
    : first{device, table, TiedTensors::shared}, second{device, table, TiedTensors::shared} {
    stream.zero(first.whole());
    stream.zero(second.whole());
}

std::vector<double> squares_by_chunk(device::Device& device, device::Stream& stream,
                                     const LayerTable& table, const TensorSet& gradient) {
    std::vector<ChunkRef> chunks;
    for (const TensorRef tensor : table.owned()) {
        for (std::int32_t chunk = 0; chunk < table.chunks_of(tensor); ++chunk) {
            chunks.push_back({tensor, chunk});
        }
    }
    const auto count = static_cast<std::int64_t>(chunks.size());
    const device::Memory memory = device.allocate(count * bytes_of(DType::f64));
    const device::Tensor sums = memory.at(0, {"squares", Shape{count}, DType::f64});
    for (std::int64_t i = 0; i < count; ++i) {
        stream.sum_of_squares(sums.slice(i, 1),
                              gradient.at(table, chunks[static_cast<std::size_t>(i)]));
    }
    std::vector<double> squares(chunks.size());
    stream.download(std::as_writable_bytes(std::span{squares}), sums);
    stream.synchronize();
    return squares;
}

}  // namespace rhizome::model
