// Workers that save states, and go on from them, on any world and any disk.
#pragma once

#include <memory>
#include <random>

#include "engine/saver.hpp"
#include "engine/stored_values.hpp"
#include "support/engine_run.hpp"

namespace rhizome::tests {

/// Does its work at once, when asked for the n-th time whether it is done; n is drawn.
class DrawnBackground final : public engine::Background {
  public:
    DrawnBackground(std::uint64_t seed, int looks_max) : random_{seed}, looks_max_{looks_max} {}

    void start(std::function<void()> work) override {
        ENSURE(work_ == nullptr);
        work_ = std::move(work);
        looks_ = std::uniform_int_distribution<int>{0, looks_max_}(random_);
    }
    bool idle() override {
        if (work_ == nullptr) return true;
        if (looks_-- > 0) return false;
        const auto work = std::exchange(work_, nullptr);
        work();
        return true;
    }

  private:
    std::mt19937_64 random_;
    int looks_max_;
    int looks_ = 0;
    std::function<void()> work_;
};

/// Is never done.
class StuckBackground final : public engine::Background {
  public:
    void start(std::function<void()> /*work*/) override { busy_ = true; }
    bool idle() override { return !busy_; }

  private:
    bool busy_ = false;
};

inline const std::string states_place = "run/states";

struct SavingLength {
    std::int32_t steps = 6;
    std::int32_t save_interval = 2;
    std::int32_t stop_after = -1;     // somebody asks for it in that step
    std::int32_t save_asked_in = -1;  // the last member asks for it in that step
    state::KeepRule keep{.last = 100};
    bool looks_for_states = true;  // at its beginning
};

struct SavingEnd {
    engine::TrainEnd end{CommStatus::ok, 0, false};
    std::int32_t first_step = 0;
    std::optional<std::int32_t> saved;
    std::vector<engine::SaveEnd> saves;
    std::vector<std::string> prune_problems;
    std::vector<engine::ChunkDigest> chunks;  // on the first member
};

/// From the newest state on the disk, or from the beginning.
inline SavingEnd run_saving_worker(world::World& world, std::shared_ptr<state::FileSystem> disk,
                                   engine::Background& background, const SmallOptions& options,
                                   const Arrangement& arrangement, const SavingLength& length,
                                   Nanoseconds patience = std::chrono::seconds{60}) {
    const model::Network network = network_of(options);
    const MemoryText text = small_text();
    const auto device = device::make_reference_device(options.threads);
    const LayerTable& table = network.table();
    const engine::RunPlan plan = plan_of(arrangement, table, world.members(), options.lanes, 0);
    std::vector<state::FoundState> states;
    if (length.looks_for_states) states = state::find_states(*disk, states_place);
    engine::Worker worker{
        *device,
        network,
        text,
        nullptr,
        world,
        plan,
        {.seed = 1234,
         .rows = options.rows,
         .optimizer = small_optimizer(),
         .patience = patience,
         .begin = states.empty() ? engine::Begin::initial : engine::Begin::loaded}};
    SavingEnd result;
    if (!states.empty()) {
        state::StateReader reader{disk, states.front().path};
        engine::StoredValues values{reader, table};
        worker.load(values, states.front().steps);
        result.first_step = states.front().steps;
    }
    engine::Saver saver{
        worker,
        table,
        background,
        {.files = disk,
         .folder = states_place,
         .keep = length.keep,
         .facts = [](std::int32_t steps) { return state::StateFacts{.steps = steps}; },
         .on_end = [&](const engine::SaveEnd& end) { result.saves.push_back(end); },
         .on_prune_problem =
             [&](const std::string& problem) { result.prune_problems.push_back(problem); }},
        states.empty() ? std::nullopt : std::optional{states.front().steps}};
    Trace trace;
    std::int32_t step = result.first_step;
    const bool last = world.self() == world.members().back();
    engine::TrainLoopConfig loop{.steps = length.steps,
                                 .first_step = result.first_step,
                                 .evaluate_interval = 0,
                                 .saver = &saver,
                                 .save_interval = length.save_interval};
    loop.stop_asked = [&] { return step == length.stop_after; };
    loop.save_asked = [&] { return step++ == length.save_asked_in && last; };
    result.end = engine::train(worker, loop, trace);
    result.saved = saver.saved_steps();
    if (result.end.status == CommStatus::ok) {
        result.chunks = engine::gather_digests(worker, table).chunks;
    }
    return result;
}

}  // namespace rhizome::tests
