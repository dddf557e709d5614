// Steps, with what is due between them: saves and evaluations. After a loss the run is repaired and
// goes on where all survivors are. Whoever wants to see or print what happens gives an observer.
#pragma once

#include <functional>
#include <optional>

#include "engine/repair.hpp"
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
    /// How losses are repaired; null: the first one ends the run.
    const RepairConfig* repair = nullptr;
    /// So long after a repair a moment is calm: if the world runs short of epochs, it is renewed.
    Nanoseconds calm{};
    /// What all do together when the training is over; a loss lets it begin again.
    std::function<CommStatus()> part = [] { return CommStatus::ok; };
};

class TrainObserver {
  public:
    virtual ~TrainObserver() = default;
    virtual void on_step(const StepResult& result) = 0;
    /// `steps` were done before it.
    /// After a loss it may be told a second time, with the same numbers.
    virtual void on_evaluation(std::int32_t steps, double loss) = 0;
    /// The worker is in a new epoch, or in another shape.
    virtual void on_repair(const RepairRecord& /*record*/) {}
    /// Further repairs have been made possible, after so many steps.
    virtual void on_renewal(std::int32_t /*steps*/, Interval /*when*/) {}
};

struct TrainEnd {
    CommStatus status;
    std::int32_t steps_done;
    bool stopped;  // somebody asked for it, before the last step
    /// Why nothing can be made of those who are left, if so: then all who live have this end.
    /// Otherwise a status that is not ok is this worker's alone.
    std::string parked{};
};

/// Trains from the worker's state on; all workers of a run call it with the same numbers. The state
/// at the end is saved. On a status that is not ok the worker has abandoned the epoch. Throws
/// DivergedError.
[[nodiscard]] TrainEnd train(Worker& worker, const TrainLoopConfig& config,
                             TrainObserver& observer);

}  // namespace rhizome::engine
