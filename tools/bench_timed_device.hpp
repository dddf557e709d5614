// A device that measures the time of each operation of the inner one, for `make bench`.
#pragma once

#include <map>

#include "bench_support.hpp"
#include "device/stream_on_top.hpp"

namespace rhizome::bench {

using device::Tensor;

/// Seconds by operation, and by part of the work.
struct Times {
    std::map<std::string, double> operations;
    std::map<device::Work::Part, double> parts;
};

class TimedStream final : public device::StreamOnTop {
  public:
    TimedStream(std::unique_ptr<device::Stream> inner, Times& times)
        : StreamOnTop{std::move(inner)}, times_{times} {}

    void begin(const device::Work& work) override { part_ = work.part; }

#define RHIZOME_TIMED(operation, name, parameters, arguments)   \
    void operation parameters override {                        \
        timed(name, [&] { StreamOnTop::operation arguments; }); \
    }
    RHIZOME_TIMED(copy, "copies and zeros", (Tensor to, Tensor from), (to, from))
    RHIZOME_TIMED(zero, "copies and zeros", (Tensor to), (to))
    RHIZOME_TIMED(add, "add", (Tensor out, Tensor a, Tensor b), (out, a, b))
    RHIZOME_TIMED(gelu, "gelu", (Tensor out, Tensor x), (out, x))
    RHIZOME_TIMED(gelu_backward, "gelu", (Tensor d_x, Tensor d_out, Tensor x), (d_x, d_out, x))
    RHIZOME_TIMED(embed, "embedding", (Tensor out, Tensor tokens, Tensor token, Tensor position),
                  (out, tokens, token, position))
    RHIZOME_TIMED(embed_backward, "embedding",
                  (Tensor d_token, Tensor d_position, Tensor d_out, Tensor tokens),
                  (d_token, d_position, d_out, tokens))
    RHIZOME_TIMED(norm, "norm",
                  (Tensor out, Tensor mean, Tensor inverse, Tensor x, Tensor weight, Tensor bias),
                  (out, mean, inverse, x, weight, bias))
    RHIZOME_TIMED(norm_backward_input, "norm",
                  (Tensor d_x, Tensor d_out, Tensor x, Tensor mean, Tensor inverse, Tensor weight),
                  (d_x, d_out, x, mean, inverse, weight))
    RHIZOME_TIMED(norm_backward_weight, "norm",
                  (Tensor d_weight, Tensor d_bias, Tensor d_out, Tensor x, Tensor mean,
                   Tensor inverse),
                  (d_weight, d_bias, d_out, x, mean, inverse))
    RHIZOME_TIMED(linear, "products",
                  (Tensor out, Tensor x, Tensor weight, std::optional<Tensor> bias),
                  (out, x, weight, bias))
    RHIZOME_TIMED(linear_backward_input, "products", (Tensor d_x, Tensor d_out, Tensor weight),
                  (d_x, d_out, weight))
    RHIZOME_TIMED(linear_backward_weight, "products",
                  (Tensor d_weight, std::optional<Tensor> d_bias, Tensor d_out, Tensor x),
                  (d_weight, d_bias, d_out, x))
    RHIZOME_TIMED(attention, "attention",
                  (Tensor out, Tensor log_sum, Tensor qkv, std::optional<device::Dropout> dropout),
                  (out, log_sum, qkv, dropout))
    RHIZOME_TIMED(attention_backward, "attention",
                  (Tensor d_qkv, Tensor d_out, Tensor out, Tensor log_sum, Tensor qkv,
                   std::optional<device::Dropout> dropout),
                  (d_qkv, d_out, out, log_sum, qkv, dropout))
    RHIZOME_TIMED(cross_entropy, "loss",
                  (Tensor loss, Tensor logits, Tensor targets, double gradient_scale),
                  (loss, logits, targets, gradient_scale))
    RHIZOME_TIMED(sums_of_squares, "sum of squares", (Tensor sums, std::span<const Tensor> of),
                  (sums, of))
    RHIZOME_TIMED(adamw, "AdamW",
                  (Tensor parameter, Tensor first_moment, Tensor second_moment, Tensor gradient,
                   const device::AdamWStep& step),
                  (parameter, first_moment, second_moment, gradient, step))
#undef RHIZOME_TIMED

  private:
    void timed(const std::string& name, const std::function<void()>& call) {
        const Nanoseconds start = clock_.now();
        call();
        const double time = std::chrono::duration<double>(clock_.now() - start).count();
        times_.operations[name] += time;
        times_.parts[part_] += time;
    }

    Times& times_;
    SteadyClock clock_;
    device::Work::Part part_ = device::Work::Part::other;
};

class TimedDevice final : public device::Device {
  public:
    explicit TimedDevice(std::unique_ptr<device::Device> inner) : inner_{std::move(inner)} {}

    device::Memory allocate(std::int64_t bytes) override { return inner_->allocate(bytes); }
    std::unique_ptr<device::Stream> make_stream() override {
        return std::make_unique<TimedStream>(inner_->make_stream(), times);
    }
    [[nodiscard]] std::string fingerprint() const override { return inner_->fingerprint(); }

    Times times{};

  private:
    std::unique_ptr<device::Device> inner_;
};

}  // namespace rhizome::bench
