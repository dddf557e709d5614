// Steps, with evaluation in between. Whoever wants to see or print what happens gives an observer.
#pragma once

#include <functional>

#include "engine/worker.hpp"

namespace rhizome::engine {

struct TrainLoopConfig {
    std::int32_t steps;
    std::int32_t evaluate_interval;  // steps between evaluations; 0: only after the last
    /// Asked before each step. If anybody's says yes the run ends behind that step, for all.
    std::function<bool()> stop_asked = [] { return false; };
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

/// Trains from the worker's initial state; all workers of a run call it with the same numbers. On a
/// status that is not ok the worker has abandoned the epoch. Throws DivergedError.
[[nodiscard]] TrainEnd train(Worker& worker, const TrainLoopConfig& config,
                             TrainObserver& observer);

}  // namespace rhizome::engine
