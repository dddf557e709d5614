// GPT-2 124M on one thread of the cpu backend. The limit is what one core reaches in the matrix
// products of that model, measured in the same run. A step's FLOPs are counted as usual (Chowdhery
// et al. 2022, PaLM, appendix B): 6 per token and weight of a product, and per token, layer,
// position and channel 12 for attention, as if it had no mask; what is computed again is not
// counted.
#include "bench_cpu.hpp"

#include <array>
#include <map>

#include "device/cpu_matrix.hpp"
#include "device/stream_on_top.hpp"
#include "model/gpt.hpp"

namespace rhizome::bench {
namespace {

using device::Tensor;

constexpr std::int64_t channels = 768;
constexpr std::int64_t vocabulary = 50257;
constexpr std::int32_t blocks = 12;

/// Best of the products of a block and of the head, in FLOP/s.
double product_limit(Report& report) {
    constexpr std::int64_t rows = 1024;
    double best = 0;
    const auto measure = [&](const std::string& name, device::cpu::Product product,
                             device::cpu::Order a_order, device::cpu::Order b_order) {
        using device::cpu::Order;
        const auto sized = [](std::int64_t count) {
            return std::vector<float>(static_cast<std::size_t>(count), 0.01F);
        };
        const std::vector<float> a = sized(product.rows * product.inner);
        const std::vector<float> b = sized(product.inner * product.columns);
        std::vector<float> out = sized(product.rows * product.columns);
        const double time = seconds([&] {
            device::cpu::multiply(
                product, out.data(), product.columns,
                {a.data(), a_order == Order::plain ? product.inner : product.rows, a_order},
                {b.data(), b_order == Order::plain ? product.columns : product.inner, b_order});
        });
        const double rate = 2.0 * static_cast<double>(product.rows) *
                            static_cast<double>(product.columns) *
                            static_cast<double>(product.inner) / time;
        best = std::max(best, rate);
        report.add({"oneDNN " + name, rate / 1e9, "GFLOP/s", 0, ""});
    };
    using enum device::cpu::Order;
    for (const auto& [name, outputs, inputs] : {std::tuple{"attention", 3 * channels, channels},
                                                {"projection", channels, channels},
                                                {"expand", 4 * channels, channels},
                                                {"contract", channels, 4 * channels},
                                                {"head", vocabulary, channels}}) {
        const std::string layer = name;
        measure(layer + ", forward", {.rows = rows, .columns = outputs, .inner = inputs}, plain,
                transposed);
        measure(layer + ", input part", {.rows = rows, .columns = inputs, .inner = outputs}, plain,
                plain);
        measure(layer + ", weight part",
                {.rows = outputs, .columns = inputs, .inner = rows, .keep = 1}, transposed, plain);
    }
    return best;
}

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
    RHIZOME_TIMED(sum_of_squares, "sum of squares", (Tensor sum, Tensor x), (sum, x))
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

struct Measured {
    double step_s;
    double flops;
    Times times;
};

/// Means over some steps of one microbatch, after one that nobody counts.
Measured measure_steps(std::int64_t context, std::int32_t rows, int steps) {
    const model::GptConfig config{.blocks = blocks,
                                  .channels = channels,
                                  .heads = 12,
                                  .context = static_cast<std::int32_t>(context),
                                  .vocabulary = vocabulary,
                                  .tying = model::Tying::tied,
                                  .dropout = 0};
    TimedDevice device{device::make_cpu_device(1)};
    const model::Network network = model::make_gpt(config, rows, DType::f32, 65536);
    const Pattern text{context};
    const auto world = world::make_solo_world();
    engine::Worker worker{
        device,
        network,
        text,
        nullptr,
        *world,
        plan_for_one(network.table(), {1, 1}, engine::Recompute::none),
        {.seed = 1, .rows = rows, .optimizer = {}, .patience = Nanoseconds::max() / 4}};
    std::int32_t step = 0;
    const auto run = [&] {
        ENSURE(worker.run_step(Step{step++}, engine::vote::all).status == CommStatus::ok);
    };
    run();
    device.times = {};
    const SteadyClock clock;
    const Nanoseconds start = clock.now();
    for (int i = 0; i < steps; ++i) run();
    Measured measured{std::chrono::duration<double>(clock.now() - start).count() / steps, 0,
                      device.times};
    for (auto& [name, time] : measured.times.operations) time /= steps;
    for (auto& [part, time] : measured.times.parts) time /= steps;
    const double tokens = static_cast<double>(context) * rows;
    const double weights =
        12.0 * blocks * channels * channels + static_cast<double>(vocabulary * channels);
    measured.flops =
        tokens * (6 * weights + 12.0 * blocks * static_cast<double>(context * channels));
    return measured;
}

void add_operations(Report& report, const std::string& name, const Measured& measured) {
    double all = 0;
    for (const auto& [operation, time] : measured.times.operations) {
        report.add({name + ": " + operation, time * 1e3, "ms", time / measured.step_s, "the step"});
        all += time;
    }
    const double rest = measured.step_s - all;
    report.add(
        {name + ": around the operations", rest * 1e3, "ms", rest / measured.step_s, "the step"});
}

}  // namespace

void cpu_backend(Report& report) {
    const double limit = product_limit(report);
    const Measured long_texts = measure_steps(1024, 1, 2);
    double passes = 0;
    for (const auto& [part, time] : long_texts.times.parts) {
        using enum device::Work::Part;
        if (part == forward || part == backward_input || part == backward_weight) passes += time;
    }
    report.add({"gpt2 T 1024 x 1, forward and backward", long_texts.flops / passes / 1e9, "GFLOP/s",
                long_texts.flops / passes / limit, "the best product"});
    report.add({"gpt2 T 1024 x 1, step", 1024 / long_texts.step_s, "tokens/s",
                passes / long_texts.step_s, "it are forward and backward"});
    add_operations(report, "gpt2 T 1024 x 1", long_texts);
    const Measured short_texts = measure_steps(64, 4, 4);
    report.add({"gpt2 T 64 x 4, step", 256 / short_texts.step_s, "tokens/s", 0, ""});
    add_operations(report, "gpt2 T 64 x 4", short_texts);
}

}  // namespace rhizome::bench
