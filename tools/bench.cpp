// `make bench`: how fast the reference backend and the training loop are, as ratios to limits that
// are measured in the same run, on the same core, between the same two lines of output. Absolute
// numbers are printed for orientation; machines differ and are noisy, ratios less so.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "bench_cpu.hpp"
#include "bench_state.hpp"
#include "bench_support.hpp"
#include "core/text.hpp"
#include "data/sampler.hpp"
#include "device/device.hpp"
#include "engine/worker.hpp"
#include "model/gpt.hpp"
#include "plan/ownership.hpp"
#include "schedule/check.hpp"
#include "schedule/dry_run.hpp"
#include "schedule/generate.hpp"

namespace rhizome::bench {
namespace {

/// What one core reaches with products and sums that never leave its registers, in FLOP/s.
double arithmetic_limit() {
    using Wide [[gnu::vector_size(32)]] = float;
    constexpr int chains = 12;  // enough to hide the latency of both operations
    constexpr int rounds = 1 << 18;
    volatile float seed = 0.999F;
    std::array<Wide, chains> sums{};
    float sink = 0;
    const double time = seconds([&] {
        const float factor = seed;
        for (int i = 0; i < rounds; ++i) {
            for (Wide& sum : sums) sum = sum * factor + factor;
        }
        for (const Wide& sum : sums) sink += sum[0];
    });
    volatile float keep = sink;
    static_cast<void>(keep);
    return 2.0 * 8 * chains * rounds / time;
}

/// Bytes per second, read and written, of copies far larger than the caches.
double copy_limit() {
    constexpr std::size_t bytes = std::size_t{256} << 20;
    std::vector<std::byte> from(bytes, std::byte{1});
    std::vector<std::byte> to(bytes);
    return 2.0 * bytes / seconds([&] { std::memcpy(to.data(), from.data(), bytes); });
}

device::Tensor tensor(std::vector<device::Memory>& memory, device::Device& device,
                      device::Stream& stream, const Shape& shape) {
    const TensorSpec spec{"", shape, DType::f32};
    memory.push_back(device.allocate(spec.bytes()));
    const device::Tensor made = memory.back().at(0, spec);
    std::vector<float> values(static_cast<std::size_t>(made.elements()));
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(i % 251) * 0.01F + 0.001F;
    }
    stream.upload(made, std::as_bytes(std::span{values}));
    return made;
}

void products(Report& report, double limit) {
    const auto device = device::make_reference_device(1);
    const auto stream = device->make_stream();
    for (const auto& [rows, outputs, inputs] :
         {std::array<std::int64_t, 3>{512, 192, 64}, {512, 512, 128}, {512, 3072, 768}}) {
        std::vector<device::Memory> memory;
        const auto make = [&](const Shape& shape) {
            return tensor(memory, *device, *stream, shape);
        };
        const auto x = make({rows, inputs});
        const auto y = make({rows, outputs});
        const auto weight = make({outputs, inputs});
        const double flops = 2.0 * static_cast<double>(rows * outputs * inputs);
        const std::string shape = " " + std::to_string(rows) + " x " + std::to_string(outputs) +
                                  " x " + std::to_string(inputs);
        const auto add = [&](const std::string& name, double time) {
            report.add({name + shape, flops / time / 1e9, "GFLOP/s", flops / time / limit,
                        "products and sums in registers"});
        };
        add("linear", seconds([&] { stream->linear(y, x, weight, std::nullopt); }));
        add("linear, input part", seconds([&] { stream->linear_backward_input(x, y, weight); }));
        add("linear, weight part",
            seconds([&] { stream->linear_backward_weight(weight, std::nullopt, y, x); }));
    }
}

void optimizer(Report& report, double limit) {
    const auto device = device::make_reference_device(1);
    const auto stream = device->make_stream();
    std::vector<device::Memory> memory;
    const Shape shape{std::int64_t{16} << 20};
    std::array<device::Tensor, 4> state;
    for (auto& each : state) each = tensor(memory, *device, *stream, shape);
    const device::AdamWStep step{1e-9, 0.1, 0.9, 0.95, 1e-8, 1.0, 0.1, 0.05};
    const double time =
        seconds([&] { stream->adamw(state[0], state[1], state[2], state[3], step); });
    const double rate = 7.0 * 4.0 * static_cast<double>(shape.elements()) / time;
    report.add({"AdamW", rate / 1e9, "GB/s", rate / limit, "a large copy"});
}

void sampler(Report& report) {
    const data::Sampler order{1, 1'000'003, 64, 8};
    std::int64_t sink = 0;
    const double time = seconds([&] {
        for (std::int32_t m = 0; m < 64; ++m) {
            for (std::int32_t row = 0; row < 8; ++row) {
                sink += order.sample(Step{12345}, Microbatch{m}, row);
            }
        }
    });
    report.add({"sampler, of a million samples", time / 512 * 1e9, "ns/sample", 0, ""});
    volatile std::int64_t keep = sink;
    static_cast<void>(keep);
}

/// Generating (with wires and the end of the step), checking and dry-running, for growing sizes.
void schedules(Report& report) {
    for (const auto& [stages, microbatches] : {std::pair{8, 64}, {16, 128}, {32, 256}, {64, 512}}) {
        RunShape shape{.workers = {}, .lanes = {microbatches, 8}, .pipelines = {}};
        PipelineShape pipeline{.stages = {}, .lanes = {0, 8}};
        LayerTable table{.layers = {}, .chunk_elements = 1};
        OwnershipMap owners;
        for (std::int32_t s = 0; s < stages; ++s) {
            shape.workers.emplace_back(s);
            pipeline.stages.push_back({WorkerId{s}, {s, s + 1}});
            LayerFacts layer;
            layer.name = "layer." + std::to_string(s);
            layer.parameters = {{.spec = {"parameter", Shape{1}, DType::f32}}};
            table.layers.push_back(layer);
            owners.chunks.push_back(
                {{{LayerId{s}, 0}, 0}, {WorkerId{s}, WorkerId{s > 0 ? s - 1 : 1}}});
        }
        shape.pipelines.push_back(pipeline);
        const schedule::Costs costs = schedule::equal_costs(stages);
        schedule::Schedule made{.shape = shape, .programs = {}};
        const std::string size =
            " " + std::to_string(stages) + " x " + std::to_string(microbatches);
        const double generate = seconds([&] {
            made =
                schedule::full_step(schedule::Style::zero_bubble_h1, shape, costs, table, owners);
        });
        std::size_t instructions = 0;
        for (const auto& program : made.programs) instructions += program.size();
        bool right = true;
        const double check = seconds([&] {
            right = right && !schedule::find_fault(made, schedule::Purpose::training, table, owners,
                                                   {.messages_max = 0});
        });
        const double dry = seconds([&] {
            right = right && schedule::dry_run(made, costs, {&table, &owners}).has_value();
        });
        if (!right) std::printf("a schedule is wrong: these times mean nothing\n");
        const auto add = [&](const std::string& name, double time) {
            report.add({name + size, time * 1e3, "ms", 0, ""});
        };
        add("schedule zb-h1, generate", generate);
        add("schedule zb-h1, check", check);
        add("schedule zb-h1, dry run", dry);
        report.add({"schedule zb-h1, all, per instruction" + size,
                    (generate + check + dry) / static_cast<double>(instructions) * 1e9, "ns", 0,
                    ""});
    }
}

/// Seconds of a training step of gpt-0.1m with 4 microbatches of 8.
double step_seconds(std::int32_t threads, engine::Recompute recompute, double dropout,
                    double* flops) {
    const model::GptConfig config{.blocks = 2,
                                  .channels = 64,
                                  .heads = 2,
                                  .context = 64,
                                  .vocabulary = 256,
                                  .tying = model::Tying::tied,
                                  .dropout = dropout};
    const auto device = device::make_reference_device(threads);
    const model::Network network = model::make_gpt(config, 8, DType::f32, 65536);
    const Pattern text{config.context};
    const auto world = world::make_solo_world();
    engine::Worker worker{
        *device,
        network,
        text,
        nullptr,
        *world,
        plan_for_one(network.table(), {4, 4}, recompute),
        {.seed = 1, .rows = 8, .optimizer = {}, .patience = Nanoseconds::max() / 4}};
    *flops = 0;
    for (const LayerFacts& layer : network.table().layers) {
        *flops += 4 * (layer.costs.forward_flops + layer.costs.backward_input_flops +
                       layer.costs.backward_weight_flops);
    }
    std::int32_t step = 0;
    return seconds(
        [&] { ENSURE(worker.run_step(Step{step++}, engine::vote::all).status == CommStatus::ok); });
}

void training(Report& report, double limit) {
    constexpr double tokens = 4 * 8 * 64;
    double flops = 0;
    const double one = step_seconds(1, engine::Recompute::none, 0.0, &flops);
    report.add({"gpt-0.1m step, 1 thread", tokens / one, "tokens/s", flops / one / limit,
                "products and sums in registers"});
    const double two = step_seconds(2, engine::Recompute::none, 0.0, &flops);
    report.add(
        {"gpt-0.1m step, 2 threads", tokens / two, "tokens/s", one / two / 2, "twice one thread"});
    const double again = step_seconds(1, engine::Recompute::all, 0.0, &flops);
    report.add({"gpt-0.1m step, recompute=all", tokens / again, "tokens/s", one / again,
                "the step that keeps"});
    const double dropped = step_seconds(1, engine::Recompute::none, 0.1, &flops);
    report.add({"gpt-0.1m step, dropout 0.1", tokens / dropped, "tokens/s", one / dropped,
                "the step without"});
}

}  // namespace
}  // namespace rhizome::bench

int main(int count, char** arguments) {
    using namespace rhizome::bench;
    const std::vector<std::string> words{arguments + 1, arguments + count};
    // rhizome-bench [FILE [PART...]]: all parts, if none is named.
    const auto wanted = [&](const std::string& part) {
        return words.size() < 2 || std::find(words.begin() + 1, words.end(), part) != words.end();
    };
    Report report;
    const double arithmetic = arithmetic_limit();
    const double copying = copy_limit();
    report.add({"limit: products and sums in registers", arithmetic / 1e9, "GFLOP/s", 0, ""});
    report.add({"limit: a large copy", copying / 1e9, "GB/s", 0, ""});
    if (wanted("reference")) {
        products(report, arithmetic);
        optimizer(report, copying);
        training(report, arithmetic);
    }
    if (wanted("schedules")) {
        sampler(report);
        schedules(report);
    }
    if (wanted("cpu")) cpu_backend(report);
    if (wanted("states")) states(report);
    if (words.empty()) return 0;
    std::FILE* const file = std::fopen(words[0].c_str(), "w");
    if (file == nullptr) {
        std::perror(words[0].c_str());
        return 2;
    }
    std::fputs(report.json(rhizome::device::make_cpu_device(1)->fingerprint()).c_str(), file);
    std::fclose(file);
    std::printf("written to %s\n", words[0].c_str());
    return 0;
}
