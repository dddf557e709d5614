// Steps, with evaluation in between. Whoever wants to see or print what happens gives an observer.
#pragma once

#include <functional>

#include "engine/saver.hpp"
#include "engine/worker.hpp"

namespace rhizome::engine {

struct TrainLoopConfig {
    std::int32_t steps;
    std::int32_t first_step = 0;     // those before are in the worker's state
    std::int32_t evaluate_interval;  // steps between evaluations; 0: only after the last
    Saver* saver = nullptr;          // if states are saved
    std::int32_t save_interval = 0;  // steps between them; 0: only at the end
    /// Asked before each step. If anybody's says yes the run ends behind that step, for all.
    std::function<bool()> stop_asked = [] { return false; };
    /// Likewise. If anybody's says yes, the state after that step is saved.
    std::function<bool()> save_asked = [] { return false; };
    /// Told of a status that is not ok before the others are: whoever saw it first knows best.
    std::function<void(CommStatus status, std::int32_t steps_done)> on_loss = [](CommStatus,
                                                                                 std::int32_t) {};
};

class TrainObserver {
  public:
    virtual ~TrainObserver() = default;
    virtual void on_step(const StepResult& result) = 0;
    /// `steps` were done before it.
    virtual void on_evaluation(std::int32_t steps, double loss) = 0;
};

struct TrainEnd {
    CommStatus status;
    std::int32_t steps_done;
    bool stopped;  // somebody asked for it, before the last step
};

/// Trains from the worker's state on; all workers of a run call it with the same numbers. The state
/// at the end is saved. On a status that is not ok the worker has abandoned the epoch. Throws
/// DivergedError.
[[nodiscard]] TrainEnd train(Worker& worker, const TrainLoopConfig& config,
                             TrainObserver& observer);

}  // namespace rhizome::engine
