#include "engine/train_loop.hpp"

namespace rhizome::engine {

void train(Trainer& trainer, const data::Dataset* validation, const TrainLoopConfig& config,
           TrainObserver& observer) {
    for (std::int32_t step = 0; step < config.steps; ++step) {
        observer.on_step(trainer.run_step(Step{step}));
        const std::int32_t done = step + 1;
        const bool due = done == config.steps ||
                         (config.evaluate_interval > 0 && done % config.evaluate_interval == 0);
        if (due && validation != nullptr) {
            observer.on_evaluation(done,
                                   trainer.evaluate(*validation, config.evaluate_microbatches));
        }
    }
    trainer.expect_finite_parameters();
}

}  // namespace rhizome::engine
