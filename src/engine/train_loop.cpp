#include "engine/train_loop.hpp"

namespace rhizome::engine {
namespace {

CommStatus evaluate(Worker& worker, std::int32_t steps_done, TrainObserver& observer) {
    if (!worker.plan().evaluation) return CommStatus::ok;
    const auto [status, loss] = worker.evaluate();
    if (status == CommStatus::ok) observer.on_evaluation(steps_done, loss);
    return status;
}

TrainEnd run(Worker& worker, const TrainLoopConfig& config, TrainObserver& observer) {
    for (std::int32_t step = 0; step < config.steps; ++step) {
        const StepEnd end = worker.run_step(Step{step}, !config.stop_asked());
        if (end.status != CommStatus::ok) return {end.status, step, false};
        observer.on_step(end.result);
        const std::int32_t done = step + 1;
        if (!end.go_on && done < config.steps) return {CommStatus::ok, done, true};
        const bool due = done == config.steps ||
                         (config.evaluate_interval > 0 && done % config.evaluate_interval == 0);
        const CommStatus status = due ? evaluate(worker, done, observer) : CommStatus::ok;
        if (status != CommStatus::ok) return {status, done, false};
    }
    return {worker.expect_finite_parameters(), config.steps, false};
}

}  // namespace

TrainEnd train(Worker& worker, const TrainLoopConfig& config, TrainObserver& observer) {
    const TrainEnd end = run(worker, config, observer);
    if (end.status != CommStatus::ok) {
        config.on_loss(end.status, end.steps_done);
        worker.abandon();
    }
    return end;
}

}  // namespace rhizome::engine
