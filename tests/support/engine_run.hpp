// The engine on any world, laid out in any way, and the judge beside it.
#pragma once

#include <string>
#include <vector>

#include "engine/state_digest.hpp"
#include "engine/train_loop.hpp"
#include "plan/ownership.hpp"
#include "plan/shape.hpp"
#include "support/small_gpt.hpp"

namespace rhizome::tests {

/// How a run is laid out over the first workers of a world; those left over are spares.
struct Arrangement {
    std::vector<std::int32_t> depths{1};  // workers of each pipeline
    std::int32_t parts = 1;               // stages per worker
    std::string cut{};                    // by hand, of every pipeline; empty: by costs
    schedule::Style style = schedule::Style::one_f_one_b;
    std::int32_t owners = 2;
    engine::Recompute recompute = engine::Recompute::none;
};

inline std::string to_text(const Arrangement& arrangement) {
    std::string text;
    for (const std::int32_t depth : arrangement.depths) {
        text += (text.empty() ? "" : "+") + std::to_string(depth);
    }
    return text + " x" + std::to_string(arrangement.parts) + " " +
           std::string{schedule::name_of(arrangement.style)} + " R" +
           std::to_string(arrangement.owners) +
           (arrangement.cut.empty() ? "" : " cut " + arrangement.cut) +
           (arrangement.recompute == engine::Recompute::all ? " recompute" : "");
}

inline RunShape shape_of(const Arrangement& arrangement, const LayerTable& table,
                         const std::vector<WorkerId>& workers, LaneShape lanes) {
    std::vector<plan::WorkerFacts> facts;
    for (const WorkerId worker : workers) facts.push_back({.id = worker});
    const auto layers = static_cast<std::int32_t>(table.layers.size());
    plan::ShapeWish wish{.pipelines = {},
                         .lanes = lanes,
                         .interleave = arrangement.parts,
                         .layers = plan::layer_loads(table, schedule::equal_costs(layers), 16)};
    for (const std::int32_t depth : arrangement.depths) {
        plan::PipelineWish pipeline{.workers = depth};
        if (!arrangement.cut.empty()) {
            pipeline.cut = std::get<plan::Cut>(plan::parse_cut(arrangement.cut, layers));
        }
        wish.pipelines.push_back(pipeline);
    }
    return plan::make_shape(facts, wish);
}

inline engine::RunPlan plan_of(const Arrangement& arrangement, const LayerTable& table,
                               const std::vector<WorkerId>& workers, LaneShape lanes,
                               std::int32_t evaluation_microbatches) {
    RunShape shape = shape_of(arrangement, table, workers, lanes);
    std::vector<plan::FailureDomain> domains;
    for (std::size_t i = 0; i < workers.size(); ++i) {
        domains.emplace_back(static_cast<std::int32_t>(i));
    }
    OwnershipMap owners = plan::assign_owners(table, shape, domains, arrangement.owners);
    return engine::make_run_plan(
        {.shape = std::move(shape),
         .owners = std::move(owners),
         .style = arrangement.style,
         .recompute = arrangement.recompute,
         .evaluation_microbatches = evaluation_microbatches},
        table, schedule::equal_costs(static_cast<std::int32_t>(table.layers.size())));
}

/// What a run shows of itself.
struct Trace : engine::TrainObserver {
    std::vector<double> losses;
    std::vector<double> norms;
    std::vector<double> evaluations;

    void on_step(const engine::StepResult& result) override {
        losses.push_back(result.loss);
        norms.push_back(result.gradient_norm);
    }
    void on_evaluation(std::int32_t /*steps*/, double loss) override {
        evaluations.push_back(loss);
    }
};

struct RunLength {
    std::int32_t steps = 4;
    std::int32_t evaluate_interval = 2;
    std::int32_t evaluation_microbatches = 3;
};

/// What one worker knows at the end.
struct WorkerEnd {
    engine::TrainEnd end{CommStatus::ok, 0, false};
    Trace trace;
    std::vector<engine::ChunkDigest> chunks;  // on the first member
    std::int32_t committed_steps = 0;
    std::vector<engine::ChunkDigest> owned;  // here
};

inline std::vector<engine::ChunkDigest> owned_digests(engine::Worker& worker,
                                                      const LayerTable& table) {
    std::vector<engine::ChunkDigest> digests;
    for (const engine::OwnedState& owned : worker.state().owned()) {
        digests.push_back({engine::chunk_name(table, owned.chunk),
                           engine::digest_of_chunk(worker.stream(), owned.parameter,
                                                   owned.first_moment, owned.second_moment)});
    }
    return digests;
}

inline model::Network network_of(const SmallOptions& options) {
    return model::make_gpt(small_gpt(options.tying, options.dropout, options.blocks), options.rows,
                           options.dtype, options.chunk_elements);
}

/// With all that a loss could spoil: ties, dropout, uneven chunks, three lanes.
inline SmallOptions lively() {
    return {.tying = model::Tying::tied,
            .dropout = 0.2,
            .dtype = DType::f32,
            .rows = 1,
            .lanes = {6, 3},
            .chunk_elements = 60};
}

/// What is trained, on which samples, and how a step of them is divided.
struct Subject {
    const model::Network& network;
    const data::Dataset& data;  // of the evaluations too
    std::int32_t rows;          // samples in a microbatch
    LaneShape lanes;
    std::int32_t threads = 1;
    MakeDevice make_device = device::make_reference_device;
};

/// The whole life of one worker of a run.
inline WorkerEnd run_worker(world::World& world, device::Device& device, const Subject& subject,
                            const Arrangement& arrangement, const RunLength& length,
                            Nanoseconds patience = std::chrono::seconds{60},
                            engine::Recorder* recorder = nullptr) {
    const LayerTable& table = subject.network.table();
    const engine::RunPlan plan =
        plan_of(arrangement, table, world.members(), subject.lanes, length.evaluation_microbatches);
    engine::Worker worker{device,
                          subject.network,
                          subject.data,
                          &subject.data,
                          world,
                          plan,
                          {.seed = 1234,
                           .rows = subject.rows,
                           .optimizer = small_optimizer(),
                           .patience = patience,
                           .recorder = recorder}};
    WorkerEnd result;
    result.end = engine::train(
        worker, {.steps = length.steps, .evaluate_interval = length.evaluate_interval},
        result.trace);
    result.committed_steps = worker.committed_steps();
    result.owned = owned_digests(worker, table);
    if (result.end.status == CommStatus::ok) {
        engine::DigestEnd digests = engine::gather_digests(worker, table);
        result.end.status = digests.status;
        result.chunks = std::move(digests.chunks);
    }
    return result;
}

inline WorkerEnd run_worker(world::World& world, const Subject& subject,
                            const Arrangement& arrangement, const RunLength& length,
                            Nanoseconds patience = std::chrono::seconds{60}) {
    const auto device = subject.make_device(subject.threads);
    return run_worker(world, *device, subject, arrangement, length, patience);
}

inline WorkerEnd run_worker(world::World& world, const SmallOptions& options,
                            const Arrangement& arrangement, const RunLength& length,
                            Nanoseconds patience = std::chrono::seconds{60}) {
    const model::Network network = network_of(options);
    const MemoryText text = small_text();
    return run_worker(
        world, {network, text, options.rows, options.lanes, options.threads, options.make_device},
        arrangement, length, patience);
}

/// The same training by the judge.
inline WorkerEnd run_judge(oracle::Trainer& trainer, const data::Dataset& data,
                           const RunLength& length) {
    WorkerEnd result;
    for (std::int32_t step = 0; step < length.steps; ++step) {
        result.trace.on_step(trainer.run_step(Step{step}));
        const std::int32_t done = step + 1;
        if (length.evaluation_microbatches > 0 &&
            (done == length.steps ||
             (length.evaluate_interval > 0 && done % length.evaluate_interval == 0))) {
            result.trace.on_evaluation(done,
                                       trainer.evaluate(data, length.evaluation_microbatches));
        }
    }
    result.end.steps_done = length.steps;
    result.chunks = trainer.chunk_digests();
    return result;
}

inline WorkerEnd run_judge(const SmallOptions& options, const RunLength& length) {
    SmallRun run{options};
    return run_judge(run.trainer, run.text, length);
}

inline WorkerEnd run_judge(const Subject& subject, const RunLength& length) {
    const auto device = subject.make_device(subject.threads);
    oracle::Trainer trainer{*device,
                            subject.network,
                            subject.data,
                            {.seed = 1234,
                             .rows = subject.rows,
                             .lanes = subject.lanes,
                             .optimizer = small_optimizer(),
                             .recompute = engine::Recompute::none}};
    return run_judge(trainer, subject.data, length);
}

}  // namespace rhizome::tests
