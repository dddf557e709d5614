// A GPT small enough to be trained to the last bit in a test, on a text made by a formula.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "data/dataset.hpp"
#include "device/device.hpp"
#include "model/gpt.hpp"
#include "oracle/trainer.hpp"

namespace rhizome::tests {

/// Next-token samples of a sequence in memory.
class MemoryText final : public data::Dataset {
  public:
    MemoryText(std::vector<std::int32_t> tokens, std::int64_t context)
        : tokens_{std::move(tokens)},
          context_{context},
          fields_{{"tokens", Shape{context}, DType::i32}, {"targets", Shape{context}, DType::i32}} {
    }

    std::int64_t samples() const override {
        return (static_cast<std::int64_t>(tokens_.size()) - 1) / context_;
    }
    std::span<const TensorSpec> fields() const override { return fields_; }
    void read(std::int64_t sample, std::size_t field, std::span<std::byte> row) const override {
        const std::int64_t first = sample * context_ + static_cast<std::int64_t>(field);
        std::memcpy(row.data(), tokens_.data() + first, row.size());
    }
    std::int64_t loss_terms(std::int64_t /*sample*/) const override { return context_; }

  private:
    std::vector<std::int32_t> tokens_;
    std::int64_t context_;
    std::vector<TensorSpec> fields_;
};

/// The text of the golden file: 37 samples of 5 tokens out of 11.
inline MemoryText small_text() {
    std::vector<std::int32_t> tokens;
    for (std::int32_t i = 0; i < 37 * 5 + 1; ++i)
        tokens.push_back((i * i * 7 + 3 * i + i / 11) % 11);
    return MemoryText{tokens, 5};
}

inline model::GptConfig small_gpt(model::Tying tying, double dropout, std::int32_t blocks = 2) {
    return {.blocks = blocks,
            .channels = 8,
            .heads = 2,
            .context = 5,
            .vocabulary = 11,
            .tying = tying,
            .dropout = dropout};
}

inline model::OptimizerConfig small_optimizer() {
    return {.learning_rate = 0.01,
            .final_learning_rate = 0.001,
            .warmup_steps = 3,
            .decay_steps = 8,
            .beta1 = 0.9,
            .beta2 = 0.95,
            .epsilon = 1e-8,
            .weight_decay = 0.1,
            .clip_norm = 0.5};
}

using MakeDevice = std::unique_ptr<device::Device> (*)(std::int32_t threads);

struct SmallOptions {
    model::Tying tying = model::Tying::tied;
    double dropout = 0.0;
    DType dtype = DType::f64;
    std::int32_t rows = 2;
    LaneShape lanes{4, 2};
    std::int64_t chunk_elements = 50;
    std::int32_t threads = 1;
    engine::Recompute recompute = engine::Recompute::none;
    std::int32_t blocks = 2;  // the network has three layers more
    MakeDevice make_device = device::make_reference_device;
};

/// Everything a training run is made of, in the order in which it depends on each other.
struct SmallRun {
    explicit SmallRun(const SmallOptions& options)
        : device{options.make_device(options.threads)},
          network{model::make_gpt(small_gpt(options.tying, options.dropout, options.blocks),
                                  options.rows, options.dtype, options.chunk_elements)},
          text{small_text()},
          trainer{*device,
                  network,
                  text,
                  {.seed = 1234,
                   .rows = options.rows,
                   .lanes = options.lanes,
                   .optimizer = small_optimizer(),
                   .recompute = options.recompute}} {}

    /// For f64 runs.
    std::vector<double> read(const device::Tensor& tensor) {
        std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
        trainer.stream().download(std::as_writable_bytes(std::span{values}), tensor);
        trainer.stream().synchronize();
        return values;
    }
    void write(const device::Tensor& tensor, const std::vector<double>& values) {
        trainer.stream().upload(tensor, std::as_bytes(std::span{values}));
        trainer.stream().synchronize();
    }

    std::unique_ptr<device::Device> device;
    model::Network network;
    MemoryText text;
    oracle::Trainer trainer;
};

}  // namespace rhizome::tests
