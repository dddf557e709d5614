// engine_bench FILE [PART...]: how fast the engine is on real ranks, next to limits that are
// measured between the same ranks in the same run. The parts:
//
//   instructions  2 ranks: what the interpreter costs per instruction, on a device that does
//                 nothing; by one worker alone, and by both with their messages
//   step-end      any number of ranks: gradient sum, commit, optimizer, parameters, against an
//                 MPI_Allreduce
//   pipelines     8 ranks, paced: every style against its dry run
//   survival      2 ranks: whole steps with one owner of each chunk and with two; also in an MPI
//                 without fault tolerance
//
// Rows go to FILE, one line of JSON each, and `end` behind the last; without parts only that, so
// the start of a world can be measured. tools/bench-engine starts it.
#include <mpi.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "mpi/bench_team.hpp"
#include "support/heavy_network.hpp"
#include "support/idle_device.hpp"
#include "support/paced_run.hpp"
#include "world/mpi_world.hpp"
#include "world/paced_world.hpp"

namespace rhizome::bench {
namespace {

using schedule::Style;
using tests::Arrangement;

constexpr std::chrono::seconds patience{60};
constexpr std::int64_t chunk_elements = 65536;  // the default of training runs

/// The ranks as the engine and as the limits see them.
struct Bench {
    const Team& team;
    world::World& world;
    const Report& report;
};

/// What is trained, and how it is divided.
struct Job {
    const model::Network& network;
    const data::Dataset& data;
    Arrangement arrangement;
    LaneShape lanes;
    std::int32_t rows;
};

engine::RunPlan plan_of(const Job& job, const world::World& world) {
    return tests::plan_of(job.arrangement, job.network.table(), world.members(), job.lanes, 0);
}

/// Of the longest list.
double instructions_of(const engine::RunPlan& plan) {
    std::size_t most = 0;
    for (const auto& program : plan.step.programs) most = std::max(most, program.size());
    return static_cast<double>(most);
}

Times steps(const Team& team, world::World& world, device::Device& device, const Job& job,
            double budget_s) {
    engine::Worker worker{device,
                          job.network,
                          job.data,
                          nullptr,
                          world,
                          plan_of(job, world),
                          {.seed = 1, .rows = job.rows, .optimizer = {}, .patience = patience}};
    std::int32_t step = 0;
    return measure(team, budget_s, [&] {
        ENSURE(worker.run_step(Step{step++}, engine::vote::all).status == CommStatus::ok);
    });
}

std::string ranks_text(const Team& team) { return std::to_string(team.size()) + " ranks"; }

// --- limits ---

std::string size_text(std::size_t bytes) {
    if (bytes == 0) return "empty";
    return bytes < 1 << 20 ? std::to_string(bytes >> 10) + " KiB"
                           : std::to_string(bytes >> 20) + " MiB";
}

/// Seconds of the fastest message of that many bytes, one way, by plain MPI.
double message_s(const Bench& bench, std::size_t bytes) {
    std::vector<std::byte> memory(bytes);
    const int size = static_cast<int>(bytes);
    const int other = 1 - bench.team.rank();
    const MPI_Comm comm = bench.team.comm();
    const auto there = [&] { MPI_Send(memory.data(), size, MPI_BYTE, other, 0, comm); };
    const auto back = [&] {
        MPI_Recv(memory.data(), size, MPI_BYTE, other, 0, comm, MPI_STATUS_IGNORE);
    };
    const Times times = measure(bench.team, 0.3, [&] {
        if (bench.team.rank() == 0) there();
        back();
        if (bench.team.rank() == 1) there();
    });
    bench.report.add({.name = "limit: MPI message, " + size_text(bytes) + ", one way",
                      .value = times.p50() / 2 * 1e6,
                      .unit = "us",
                      .p99 = times.p99() / 2 * 1e6});
    return times.fastest() / 2;
}

/// Two ranks swap that many bytes: by plain MPI, and as the engine does.
void swap_messages(const Bench& bench, std::size_t bytes) {
    const std::vector<std::byte> out(bytes);
    std::vector<std::byte> in(bytes);
    const int size = static_cast<int>(bytes);
    const int other = 1 - bench.team.rank();
    const auto add = [&](const std::string& name, const Times& times, double limit_s) {
        bench.report.add(
            {.name = name + ", " + size_text(bytes) + " each way, " + ranks_text(bench.team),
             .value = times.p50() * 1e3,
             .unit = "ms",
             .share = limit_s / times.p50(),
             .limit = limit_s > 0 ? "MPI_Sendrecv" : "",
             .p99 = times.p99() * 1e3,
             .bytes = static_cast<double>(bytes)});
    };
    const Times plain = measure(bench.team, 0.4, [&] {
        MPI_Sendrecv(out.data(), size, MPI_BYTE, other, 0, in.data(), size, MPI_BYTE, other, 0,
                     bench.team.comm(), MPI_STATUS_IGNORE);
    });
    add("limit: MPI_Sendrecv", plain, 0);
    const Times through_world = measure(bench.team, 0.4, [&] {
        const std::array tickets{bench.world.receive(WorkerId{other}, world::Tag{0}, in),
                                 bench.world.send(WorkerId{other}, world::Tag{0}, out)};
        const auto deadline = bench.world.clock().now() + patience;
        ENSURE(wait_all(bench.world, tickets, deadline) == CommStatus::ok);
    });
    add("messages of the world", through_world, plain.p50());
}

double agreement_s(const Bench& bench) {
    const Times times = measure(bench.team, 0.3, [&] {
        const auto deadline = bench.world.clock().now() + patience;
        ENSURE(bench.world.agree(1, deadline).status == CommStatus::ok);
    });
    bench.report.add({.name = "agreement of " + ranks_text(bench.team),
                      .value = times.p50() * 1e6,
                      .unit = "us",
                      .p99 = times.p99() * 1e6});
    return times.fastest();
}

// --- instructions ---

/// The network of configs/demo.conf, on a text made by a formula.
constexpr model::GptConfig small_gpt{
    .blocks = 2, .channels = 64, .heads = 2, .context = 64, .vocabulary = 256};
constexpr std::int32_t small_rows = 8;

tests::MemoryText small_text(std::int32_t context = small_gpt.context) {
    std::vector<std::int32_t> tokens(100'000);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] = static_cast<std::int32_t>(i * 7 + i / 64 * 31) % 251;
    }
    return {std::move(tokens), context};
}

/// Steps on the idle device; and how much of a step with its mathematics that is.
Times instruction_steps(const Team& team, world::World& world, const Report& report, const Job& job,
                        const std::string& name) {
    tests::IdleDevice idle;
    const auto reference = device::make_reference_device(1);
    const Times alone = steps(team, world, idle, job, 1.0);
    const Times whole = steps(team, world, *reference, job, 1.5);
    const double count = instructions_of(plan_of(job, world));
    report.add({.name = "an instruction, " + name,
                .value = alone.p50() / count * 1e6,
                .unit = "us",
                .share = alone.p50() / whole.p50(),
                .limit = "a gpt-0.1m step with its mathematics",
                .p99 = alone.p99() / count * 1e6});
    return alone;
}

/// What nobody could beat: the dry run of a step without mathematics, at the fastest message
/// and agreement of this run.
double messages_only_s(const Bench& bench, const Job& job) {
    const LayerTable& table = job.network.table();
    schedule::Costs costs;
    for (const LayerFacts& layer : table.layers) {
        costs.layers.push_back({.forward_s = 1e-9,
                                .backward_input_s = 1e-9,
                                .backward_weight_s = 1e-9,
                                .wire_bytes = layer.costs.output_bytes});
    }
    const auto bytes = static_cast<std::size_t>(costs.layers.front().wire_bytes);
    costs.link_latency_s = message_s(bench, 0);
    costs.link_bytes_per_s =
        static_cast<double>(bytes) / std::max(message_s(bench, bytes) - costs.link_latency_s, 1e-9);
    costs.agreement_s = agreement_s(bench);
    const engine::RunPlan plan = plan_of(job, bench.world);
    const auto run = schedule::dry_run(plan.step, costs, {&table, &plan.owners});
    ENSURE(run.has_value());
    return run->makespan_s;
}

void instructions(const Bench& bench) {
    ENSURE(bench.team.size() == 2);
    const model::Network network =
        model::make_gpt(small_gpt, small_rows, DType::f32, chunk_elements);
    const tests::MemoryText text = small_text();
    Job job{
        .network = network, .data = text, .arrangement = {}, .lanes = {8, 4}, .rows = small_rows};
    if (bench.team.rank() == 0) {
        job.arrangement = {.depths = {1}, .parts = 4, .style = Style::interleaved, .owners = 1};
        const auto world = world::make_solo_world();
        instruction_steps(Team{MPI_COMM_SELF}, *world, bench.report, job, "4 stages of 1 worker");
    }
    bench.team.meet();
    job.arrangement = {.depths = {2}, .style = Style::one_f_one_b, .owners = 1};
    const double limit = messages_only_s(bench, job);
    const Times times =
        instruction_steps(bench.team, bench.world, bench.report, job, "2 ranks, 1F1B, messages");
    bench.report.add({.name = "a step of only messages, 2 ranks, 1F1B",
                      .value = times.p50() * 1e3,
                      .unit = "ms",
                      .share = limit / times.p50(),
                      .limit = "its dry run at the fastest messages",
                      .p99 = times.p99() * 1e3});
}

// --- the end of a step ---

void step_end(const Bench& bench, std::int64_t elements) {
    const auto bytes = 4.0 * static_cast<double>(elements);
    const std::string size =
        ", " + ranks_text(bench.team) + ", " + std::to_string(elements >> 20) + " Mi parameters";
    const auto add = [&](const std::string& name, const Times& times, double limit_s) {
        bench.report.add({.name = name + size,
                          .value = times.p50() * 1e3,
                          .unit = "ms",
                          .share = limit_s / times.p50(),
                          .limit = limit_s > 0 ? "MPI_Allreduce of the same bytes" : "",
                          .p99 = times.p99() * 1e3,
                          .bytes = bytes});
    };
    double limit_s = 0;
    {
        std::vector<float> from(static_cast<std::size_t>(elements), 1.0F);
        std::vector<float> to(from.size());
        const Times times = measure(bench.team, 0.7, [&] {
            ENSURE(MPI_Allreduce(from.data(), to.data(), static_cast<int>(elements), MPI_FLOAT,
                                 MPI_SUM, bench.team.comm()) == MPI_SUCCESS);
        });
        add("limit: MPI_Allreduce", times, 0);
        limit_s = times.p50();
    }
    const model::Network network = tests::heavy_network(4, elements, chunk_elements);
    const tests::MemoryText text{{0, 1, 2, 3, 4, 5, 6, 7, 8}, 1};
    Job job{.network = network,
            .data = text,
            .arrangement = {},
            .lanes = {bench.team.size(), bench.team.size()},
            .rows = 1};
    job.arrangement.depths.assign(static_cast<std::size_t>(bench.team.size()), 1);
    const auto reference = device::make_reference_device(1);
    tests::IdleDevice idle;
    for (const std::int32_t owners : {2, 1}) {
        job.arrangement.owners = owners;
        const std::string of = owners == 2 ? ", 2 owners" : ", 1 owner";
        add("step end" + of, steps(bench.team, bench.world, *reference, job, 0.7), limit_s);
        if (owners == 1) continue;
        add("its messages" + of, steps(bench.team, bench.world, idle, job, 0.7), limit_s);
    }
}

void step_ends(const Bench& bench) {
    static_cast<void>(agreement_s(bench));
    if (bench.team.size() == 2) {
        for (const std::size_t bytes : {4U << 20, 64U << 20}) swap_messages(bench, bytes);
    }
    for (const std::int64_t elements : {1 << 20, 16 << 20}) step_end(bench, elements);
}

// --- pipelines ---

/// Twenty milliseconds a layer and direction: mathematics and engine of eight ranks together take a
/// small part of that even on two cores.
constexpr tests::Accelerator accelerator{.layer_s = 20e-3};

void pipeline(const Bench& bench, const model::Network& network, Style style) {
    const bool parts = style == Style::interleaved;
    const tests::MemoryText text = tests::small_text();
    Job job{.network = network, .data = text, .arrangement = {}, .lanes = {16, 4}, .rows = 1};
    job.arrangement = {.depths = {8}, .style = style};
    if (parts) job.arrangement = {.depths = {4, 4}, .parts = 2, .style = style};
    const schedule::Costs costs = tests::costs_of(accelerator, network.table());
    const engine::RunPlan plan = plan_of(job, bench.world);
    const auto dry = schedule::dry_run(plan.step, costs, {&network.table(), &plan.owners});
    ENSURE(dry.has_value());

    const auto links = world::make_paced_world(
        bench.world,
        {.latency_s = accelerator.link_latency_s, .bytes_per_s = accelerator.link_bytes_per_s});
    const auto inner = device::make_reference_device(1);
    const auto device =
        device::make_paced_device(*inner, tests::pace_of(costs), bench.world.clock());
    const Times times = steps(bench.team, *links, *device, job, 5.5);
    const std::string name{"pipeline " + std::string{schedule::name_of(style)} +
                           (parts ? ", 2 of 4 workers x 2" : ", 8 workers")};
    bench.report.add({.name = name + ", step",
                      .value = times.p50() * 1e3,
                      .unit = "ms",
                      .share = times.p50() / dry->makespan_s,
                      .limit = "its dry run",
                      .p99 = times.p99() * 1e3});
    // The paced device is busy for exactly as long as the dry run says.
    const double bubbles = 1 - (1 - dry->bubble_share) * dry->makespan_s / times.p50();
    bench.report.add({.name = name + ", bubbles",
                      .value = 100 * bubbles,
                      .unit = "% of step",
                      .share = bubbles / dry->bubble_share,
                      .limit = "those of its dry run, " + to_fixed(100 * dry->bubble_share, 2)});
}

void pipelines(const Bench& bench) {
    ENSURE(bench.team.size() == 8);
    static_cast<void>(agreement_s(bench));
    const model::Network network = tests::network_of({.dtype = DType::f32, .rows = 1, .blocks = 5});
    for (const Style style : {Style::gpipe, Style::one_f_one_b, Style::zero_bubble_h1,
                              Style::zero_bubble_h2, Style::interleaved}) {
        pipeline(bench, network, style);
    }
}

// --- what it costs to be ready for losses ---

void survival(const Bench& bench) {
    ENSURE(bench.team.size() == 2);
    constexpr std::int32_t rows = 4;
    const model::Network network = model::make_gpt(
        {.blocks = 4, .channels = 128, .heads = 4, .context = 256, .vocabulary = 256}, rows,
        DType::f32, chunk_elements);
    const tests::MemoryText text = small_text(256);
    const auto device = device::make_cpu_device(1);
    Job job{.network = network, .data = text, .arrangement = {}, .lanes = {8, 2}, .rows = rows};
    for (const std::int32_t owners : {1, 2}) {
        job.arrangement = {.depths = {2}, .style = Style::one_f_one_b, .owners = owners};
        const Times times = steps(bench.team, bench.world, *device, job, 4.0);
        bench.report.add({.name = std::to_string(owners) + (owners == 1 ? " owner" : " owners"),
                          .value = times.p50() * 1e3,
                          .unit = "ms",
                          .p99 = times.p99() * 1e3});
    }
}

void run(const std::string& path, const std::vector<std::string>& parts) {
    world::Pulse pulse;
    const bool survives = parts != std::vector<std::string>{"survival"};
    const auto world = world::make_mpi_world({.pulse = pulse, .survives_losses = survives});
    MPI_Comm comm = MPI_COMM_NULL;  // apart from the engine's messages
    ENSURE(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
    const Team team{comm};
    const Report report{team, path};
    for (const std::string& part : parts) {
        const Bench bench{team, *world, report};
        if (part == "instructions") instructions(bench);
        if (part == "step-end") step_ends(bench);
        if (part == "pipelines") pipelines(bench);
        if (part == "survival") survival(bench);
    }
    report.close();
    // Unlike a barrier it also ends well for those whose peers are through with it, and gone.
    static_cast<void>(world->agree(1, world->clock().now() + patience));
    world::leave_mpi(ExitCode::done);
}

}  // namespace
}  // namespace rhizome::bench

int main(int count, char** arguments) {
    if (count < 2) return 2;
    try {
        rhizome::bench::run(arguments[1], {arguments + 2, arguments + count});
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
    }
    rhizome::world::leave_mpi(rhizome::ExitCode::our_fault);
}
