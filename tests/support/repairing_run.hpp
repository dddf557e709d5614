// A worker of a run that goes on after losses, on any world.
#pragma once

#include <algorithm>
#include <vector>

#include "core/digest.hpp"
#include "engine/repair.hpp"
#include "engine/tell.hpp"
#include "state/fake_disk.hpp"
#include "support/saving_run.hpp"

namespace rhizome::tests {

inline engine::RepairConfig repair_config(const Subject& subject, const Arrangement& arrangement,
                                          const RunLength& length) {
    const LayerTable& table = subject.network.table();
    const auto layers = static_cast<std::int32_t>(table.layers.size());
    const schedule::Costs costs = schedule::equal_costs(layers);
    return {.facts = {.table = table,
                      .manner = {.lanes = subject.lanes,
                                 .layers = plan::layer_loads(table, costs, 16),
                                 .depth_min = *std::min_element(arrangement.depths.begin(),
                                                                arrangement.depths.end()),
                                 .style = arrangement.style,
                                 .parts = arrangement.parts},
                      .redundancy = arrangement.owners},
            .costs = costs,
            .recompute = arrangement.recompute,
            .evaluation_microbatches = length.evaluation_microbatches,
            .at_most = std::chrono::seconds{600}};
}

/// What a survivor has to show.
struct SurvivorEnd : WorkerEnd {
    std::vector<engine::RepairRecord> repairs;
    std::vector<std::int32_t> renewals;  // after so many steps
};

/// Collects what an observer is told, for a WorkerEnd.
class SurvivorTrace final : public engine::TrainObserver {
  public:
    explicit SurvivorTrace(SurvivorEnd& end) : end_{end} {}
    void on_step(const engine::StepResult& result) override {
        // After a return to an older state steps come again.
        const auto step = static_cast<std::size_t>(result.step.value());
        end_.trace.losses.resize(step);
        end_.trace.norms.resize(step);
        end_.trace.on_step(result);
    }
    void on_evaluation(std::int32_t steps, double loss) override { evaluations[steps] = loss; }
    void on_repair(const engine::RepairRecord& record) override { end_.repairs.push_back(record); }
    void on_renewal(std::int32_t steps, engine::Interval) override {
        end_.renewals.push_back(steps);
    }
    std::map<std::int32_t, double> evaluations;

  private:
    SurvivorEnd& end_;
};

/// Where a run saves its states, and when.
struct SavePlan {
    std::shared_ptr<state::FakeDisk> disk;
    std::int32_t interval = 1;
    std::uint64_t seed = 1;  // of how long writing takes
};

/// What is not the memory's: the newest whole state of the disk, or the beginning.
inline CommStatus load_newest(engine::Worker& worker, const LayerTable& table,
                              const std::shared_ptr<state::FakeDisk>& disk) {
    std::int32_t newest = -1;
    if (disk && world::is_first(worker.messenger().world())) {
        const auto states = state::find_states(*disk, states_place);
        if (!states.empty()) newest = states.front().steps;
    }
    const engine::Told told = engine::tell_all(worker, newest);
    if (told.status != CommStatus::ok) return told.status;
    if (told.number < 0) {
        worker.initialize();
        return CommStatus::ok;
    }
    state::StateReader reader{disk, states_place + "/" + state::state_name(told.number)};
    engine::StoredValues values{reader, table};
    worker.load(values, told.number);
    return CommStatus::ok;
}

/// Of every chunk of a state, by name, as digest_of_chunk() has them.
inline std::map<std::string, std::string> stored_digests(
    const std::shared_ptr<state::FakeDisk>& disk, const LayerTable& table, std::int32_t steps) {
    state::StateReader reader{disk, states_place + "/" + state::state_name(steps)};
    engine::StoredValues values{reader, table};
    std::map<std::string, std::string> digests;
    std::vector<std::byte> bytes;
    for (const TensorRef tensor : table.owned()) {
        for (std::int32_t c = 0; c < table.chunks_of(tensor); ++c) {
            const ChunkRef chunk{tensor, c};
            Digest digest;
            bytes.resize(static_cast<std::size_t>(table.elements_of(chunk) *
                                                  bytes_of(table.at(tensor).spec.dtype)));
            for (const state::Value value : state::all_values) {
                values.read(chunk, value, bytes);
                digest.add(bytes);
            }
            digests[engine::chunk_name(table, chunk)] = digest.hex();
        }
    }
    return digests;
}

inline SurvivorEnd run_survivor(world::World& world, const Subject& subject,
                                const Arrangement& arrangement, const RunLength& length,
                                Nanoseconds patience, const engine::Probe& probe = {},
                                const SavePlan& saves = {}) {
    const auto device = subject.make_device(subject.threads);
    const LayerTable& table = subject.network.table();
    const engine::RunPlan plan =
        plan_of(arrangement, table, world.members(), subject.lanes, length.evaluation_microbatches);
    engine::RepairConfig repair = repair_config(subject, arrangement, length);
    repair.load = [&](engine::Worker& worker) { return load_newest(worker, table, saves.disk); };
    engine::Worker worker{*device,
                          subject.network,
                          subject.data,
                          &subject.data,
                          world,
                          plan,
                          {.seed = 1234,
                           .rows = subject.rows,
                           .optimizer = small_optimizer(),
                           .patience = patience,
                           .probe = probe}};
    SurvivorEnd result;
    SurvivorTrace trace{result};
    DrawnBackground background{saves.seed + static_cast<std::uint64_t>(world.self().value()), 1};
    std::optional<engine::Saver> saver;
    if (saves.disk) {
        saver.emplace(
            worker, table, background,
            engine::SaverConfig{
                .files = saves.disk,
                .folder = states_place,
                .keep = {.last = 100},
                .facts = [](std::int32_t steps) { return state::StateFacts{.steps = steps}; }},
            std::nullopt);
    }
    engine::TrainLoopConfig loop{.steps = length.steps,
                                 .evaluate_interval = length.evaluate_interval,
                                 .saver = saver ? &*saver : nullptr,
                                 .save_interval = saves.interval,
                                 .repair = &repair};
    loop.part = [&] {
        engine::DigestEnd digests = engine::gather_digests(worker, table);
        result.chunks = std::move(digests.chunks);
        // Then nobody needs anybody any more.
        if (digests.status != CommStatus::ok) return digests.status;
        return worker.agree(engine::vote::all).status;
    };
    result.end = engine::train(worker, loop, trace);
    for (const auto& [steps, loss] : trace.evaluations) result.trace.evaluations.push_back(loss);
    result.committed_steps = worker.committed_steps();
    result.owned = owned_digests(worker, table);
    return result;
}

}  // namespace rhizome::tests
