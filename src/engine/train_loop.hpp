// Steps, with evaluation in between. Whoever wants to see or print what happens gives an observer.
#pragma once

#include "engine/trainer.hpp"

namespace rhizome::engine {

struct TrainLoopConfig {
    std::int32_t steps;
    std::int32_t evaluate_interval;      // steps between evaluations; 0: only after the last
    std::int64_t evaluate_microbatches;  // at most
};

class TrainObserver {
  public:
    virtual ~TrainObserver() = default;
    virtual void on_step(const StepResult& result) = 0;
    /// `steps` were done before it.
    virtual void on_evaluation(std::int32_t steps, double loss) = 0;
};

/// Trains from the trainer's initial parameters. `validation` may be null: then nothing is
/// evaluated. Throws DivergedError.
void train(Trainer& trainer, const data::Dataset* validation, const TrainLoopConfig& config,
           TrainObserver& observer);

}  // namespace rhizome::engine
