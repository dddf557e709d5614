#include "engine/train_loop.hpp"

namespace rhizome::engine {
namespace {

CommStatus evaluate(Worker& worker, std::int32_t steps_done, TrainObserver& observer) {
    if (!worker.plan().evaluation) return CommStatus::ok;
    const auto [status, loss] = worker.evaluate();
    if (status == CommStatus::ok) observer.on_evaluation(steps_done, loss);
    return status;
}

bool is_due(std::int32_t interval, std::int32_t steps) {
    return interval > 0 && steps % interval == 0;
}

/// Of the run's last step. What is not finite is not saved.
CommStatus end(Worker& worker, const TrainLoopConfig& config, std::int32_t steps) {
    const CommStatus status = worker.expect_finite_parameters();
    if (status != CommStatus::ok || config.saver == nullptr) return status;
    return config.saver->finish(steps);
}

CommStatus save(const TrainLoopConfig& config, std::int32_t steps, Votes all) {
    if (config.saver == nullptr) return CommStatus::ok;
    const auto due = is_due(config.save_interval, steps) ? Saver::Due::yes : Saver::Due::no;
    return config.saver->between_steps(steps, all, due);
}

Votes votes_of(const TrainLoopConfig& config) {
    Votes votes = vote::all;
    if (config.stop_asked()) votes &= ~vote::go_on;
    if (config.save_asked()) votes &= ~vote::no_save;
    if (config.saver != nullptr) votes &= config.saver->votes();
    return votes;
}

TrainEnd run(Worker& worker, const TrainLoopConfig& config, TrainObserver& observer) {
    for (std::int32_t step = config.first_step; step < config.steps; ++step) {
        const StepEnd step_end = worker.run_step(Step{step}, votes_of(config));
        if (step_end.status != CommStatus::ok) return {step_end.status, step, false};
        observer.on_step(step_end.result);
        const std::int32_t done = step + 1;
        const bool last = done == config.steps;
        if ((step_end.votes & vote::go_on) == 0 && !last) {
            return {end(worker, config, done), done, true};
        }
        CommStatus status = last ? CommStatus::ok : save(config, done, step_end.votes);
        if (status != CommStatus::ok) return {status, done, false};
        if (last || is_due(config.evaluate_interval, done)) {
            status = evaluate(worker, done, observer);
        }
        if (status != CommStatus::ok) return {status, done, false};
    }
    return {end(worker, config, config.steps), config.steps, false};
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
