// GPT-2 124M on one thread of the cpu backend. The limit is what one core reaches in the matrix
// products of that model, measured in the same run. A step's FLOPs are counted as usual (Chowdhery
// et al. 2022, PaLM, appendix B): 6 per token and weight of a product, and per token, layer,
// position and channel 12 for attention, as if it had no mask; what is computed again is not
// counted.
#include "bench_cpu.hpp"

#include <array>

#include "bench_onednn.hpp"
#include "bench_timed_device.hpp"
#include "device/cpu_matrix.hpp"
#include "model/gpt.hpp"

namespace rhizome::bench {
namespace {

constexpr std::int64_t channels = 768;
constexpr std::int64_t vocabulary = 50257;
constexpr std::int32_t blocks = 12;

/// FLOP/s of the best product of a block or of the head.
struct ProductLimits {
    double fp32 = 0;
    double bf16 = 0;  // 0: the processor has no instructions for it
};

/// As the cpu backend multiplies.
double multiply_seconds(const MatmulShape& shape, float keep) {
    using enum device::cpu::Order;
    const auto sized = [](std::int64_t count) {
        return std::vector<float>(static_cast<std::size_t>(count), 0.01F);
    };
    const std::vector<float> left = sized(shape.rows * shape.inner);
    const std::vector<float> right = sized(shape.inner * shape.columns);
    std::vector<float> out = sized(shape.rows * shape.columns);
    return seconds([&] {
        device::cpu::multiply(
            {.rows = shape.rows, .columns = shape.columns, .inner = shape.inner, .keep = keep},
            out.data(), shape.columns,
            {left.data(), shape.left_transposed ? shape.rows : shape.inner,
             shape.left_transposed ? transposed : plain},
            {right.data(), shape.right_transposed ? shape.inner : shape.columns,
             shape.right_transposed ? transposed : plain});
    });
}

ProductLimits product_limits(Report& report) {
    constexpr std::int64_t rows = 1024;
    ProductLimits best;
    const auto measure = [&](const std::string& name, const MatmulShape& shape, float keep) {
        const double flops = 2.0 * static_cast<double>(shape.rows) *
                             static_cast<double>(shape.columns) * static_cast<double>(shape.inner);
        const auto add = [&](const std::string& how, double time, double& limit) {
            if (time == 0) return;
            limit = std::max(limit, flops / time);
            report.add({"oneDNN " + how + " " + name, flops / time / 1e9, "GFLOP/s", 0, ""});
        };
        add("fp32", multiply_seconds(shape, keep), best.fp32);
        add("fp32 packed", matmul_seconds(shape, MatmulKind::packed_fp32), best.fp32);
        add("bf16", matmul_seconds(shape, MatmulKind::bf16), best.bf16);
        add("bf16 packed", matmul_seconds(shape, MatmulKind::packed_bf16), best.bf16);
    };
    for (const auto& [name, outputs, inputs] : {std::tuple{"attention", 3 * channels, channels},
                                                {"projection", channels, channels},
                                                {"expand", 4 * channels, channels},
                                                {"contract", channels, 4 * channels},
                                                {"head", vocabulary, channels}}) {
        const std::string layer = name;
        measure(layer + ", forward", {rows, outputs, inputs, false, true}, 0);
        measure(layer + ", input part", {rows, inputs, outputs, false, false}, 0);
        measure(layer + ", weight part", {outputs, inputs, rows, true, false}, 1);
    }
    return best;
}

/// Bytes per second of what AdamW does to memory: four arrays read, three of them written.
double stream_limit() {
    constexpr std::int64_t elements = std::int64_t{32} << 20;
    std::array<std::vector<float>, 4> arrays;
    for (auto& array : arrays) array.assign(elements, 1.0F);
    auto& [a, b, c, d] = arrays;
    const double time = seconds([&, a = a.data(), b = b.data(), c = c.data(), d = d.data()] {
        for (std::int64_t i = 0; i < elements; ++i) {
            a[i] += d[i];
            b[i] += d[i];
            c[i] += d[i];
        }
    });
    return 7.0 * sizeof(float) * elements / time;
}

/// AdamW next to that, chunk by chunk.
void add_adamw(Report& report, double stream_rate) {
    constexpr std::int64_t elements = std::int64_t{32} << 20;
    constexpr std::int64_t chunk = 65536;
    const auto device = device::make_cpu_device(1);
    const auto stream = device->make_stream();
    const device::Memory memory = device->allocate(4 * elements * bytes_of(DType::f32));
    const device::Tensor all = memory.at(0, {"state", Shape{4 * elements}, DType::f32});
    stream->zero(all);
    const double time = seconds([&] {
        for (std::int64_t i = 0; i < elements; i += chunk) {
            stream->adamw(all.slice(i, chunk), all.slice(elements + i, chunk),
                          all.slice(2 * elements + i, chunk), all.slice(3 * elements + i, chunk),
                          {1e-9, 0.1, 0.9, 0.95, 1e-8, 1.0, 0.1, 0.05});
        }
    });
    const double rate = 7.0 * sizeof(float) * elements / time;
    report.add({"AdamW on the cpu device", rate / 1e9, "GB/s", rate / stream_rate, "that limit"});
}

struct Measured {
    double step_s;
    double flops;  // of forward and backward of a step
    Times times;   // of a step

    /// Forward and backward of the layers.
    [[nodiscard]] double passes_s() const {
        using enum device::Work::Part;
        double sum = 0;
        for (const auto part : {forward, backward_input, backward_weight}) {
            const auto found = times.parts.find(part);
            if (found != times.parts.end()) sum += found->second;
        }
        return sum;
    }
};

/// What is trained, in microbatches of `rows` samples, one in each lane.
struct Task {
    std::int64_t context;
    std::int32_t rows;
    std::int32_t microbatches;
    device::Precision precision = device::Precision::fp32;
};

/// Means over some steps, after one that nobody counts.
Measured measure_steps(const Task& task, int steps) {
    const model::GptConfig config{.blocks = blocks,
                                  .channels = channels,
                                  .heads = 12,
                                  .context = static_cast<std::int32_t>(task.context),
                                  .vocabulary = vocabulary,
                                  .tying = model::Tying::tied,
                                  .dropout = 0};
    auto computing = device::make_cpu_device(1);
    if (task.precision == device::Precision::bf16) {
        computing = device::make_bf16_device(std::move(computing));
    }
    TimedDevice device{std::move(computing)};
    const model::Network network = model::make_gpt(config, task.rows, DType::f32, 65536);
    const Pattern text{task.context};
    const auto world = world::make_solo_world();
    engine::Worker worker{
        device,
        network,
        text,
        nullptr,
        *world,
        plan_for_one(network.table(), {task.microbatches, task.microbatches},
                     engine::Recompute::none),
        {.seed = 1, .rows = task.rows, .optimizer = {}, .patience = Nanoseconds::max() / 4}};
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
    const double tokens = static_cast<double>(task.context) * task.rows * task.microbatches;
    const double weights =
        12.0 * blocks * channels * channels + static_cast<double>(vocabulary * channels);
    measured.flops =
        tokens * (6 * weights + 12.0 * blocks * static_cast<double>(task.context * channels));
    return measured;
}

/// Where a step's time goes, by operation; and what the engine takes over the layers and their
/// update alone.
void add_operations(Report& report, const std::string& name, const Measured& measured) {
    for (const auto& [operation, time] : measured.times.operations) {
        report.add({name + ": " + operation, time * 1e3, "ms", time / measured.step_s, "the step"});
    }
    const double bare = measured.passes_s() + measured.times.operations.at("AdamW") +
                        measured.times.operations.at("sum of squares");
    const double engine = measured.step_s - bare;
    report.add({name + ": engine", engine * 1e3, "ms", engine / bare, "layers and update alone"});
}

void add_passes(Report& report, const std::string& name, const Measured& measured, double limit) {
    const double rate = measured.flops / measured.passes_s();
    report.add({name + ", forward and backward", rate / 1e9, "GFLOP/s",
                limit > 0 ? rate / limit : 0, "the best product"});
}

}  // namespace

void cpu_backend(Report& report) {
    const ProductLimits limits = product_limits(report);
    const double stream = stream_limit();
    report.add({"limit: four arrays read, three written", stream / 1e9, "GB/s", 0, ""});
    add_adamw(report, stream);

    const std::string longer = "gpt2 T 1024 x 1 x 2";
    const Measured long_texts = measure_steps({1024, 1, 2}, 2);
    add_passes(report, longer, long_texts, limits.fp32);
    report.add({longer + ", step", 2 * 1024 / long_texts.step_s, "tokens/s", 0, ""});
    add_operations(report, longer, long_texts);

    const Measured rounded = measure_steps({1024, 1, 1, device::Precision::bf16}, 2);
    add_passes(report, "gpt2 T 1024 x 1, bf16", rounded, limits.bf16);

    const std::string shorter = "gpt2 T 64 x 4";
    const Measured short_texts = measure_steps({64, 4, 1}, 4);
    report.add({shorter + ", step", 256 / short_texts.step_s, "tokens/s", 0, ""});
    add_operations(report, shorter, short_texts);
}

}  // namespace rhizome::bench
