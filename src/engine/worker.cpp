#include "engine/worker.hpp"

#include <algorithm>
#include <cmath>

#include "core/text.hpp"

namespace rhizome::engine {

using model::Pass;

namespace {

constexpr const char* divergence_hint = "take a lower optimizer.learning_rate or more warm-up";

std::int32_t evaluation_microbatches(const RunPlan& plan) {
    return plan.evaluation ? plan.evaluation->shape.lanes.microbatches : 0;
}

std::vector<std::int64_t> first_samples(std::int32_t rows, Microbatch microbatch) {
    std::vector<std::int64_t> samples;
    for (std::int32_t row = 0; row < rows; ++row) {
        samples.push_back(std::int64_t{microbatch.value()} * rows + row);
    }
    return samples;
}

}  // namespace

Worker::Worker(device::Device& device, const model::Network& network, const data::Dataset& train,
               const data::Dataset* validation, world::World& world, const RunPlan& plan,
               const WorkerConfig& config)
    : device_{device},
      network_{network},
      train_{train},
      validation_{validation},
      config_{config},
      sampler_{config.seed, train.samples(), plan.shape.lanes.microbatches, config.rows},
      stream_{device.make_stream()},
      messenger_{world, config.patience, config.recorder},
      assignment_{make_assignment(plan)} {
    if (config.begin == Begin::initial) initialize();
    stream_->synchronize();
}

std::unique_ptr<Assignment> Worker::make_assignment(const RunPlan& plan) {
    const world::World& world = messenger_.world();
    ENSURE(world.members() == plan.shape.workers);
    ENSURE(!plan.evaluation || validation_ != nullptr);
    return std::make_unique<Assignment>(device_, *stream_, network_, train_.fields(), plan,
                                        world.self(), config_.rows);
}

Workbench Worker::bench(Parts& parts, device::Tensor losses) {
    return {.stream = *stream_,
            .messenger = messenger_,
            .parameters = assignment_->state.parameters(),
            .stages = assignment_->stages,
            .exchange = assignment_->exchange,
            .parts = parts,
            .losses = losses,
            .squares = assignment_->squares,
            .pulse = config_.pulse,
            .probe = config_.probe,
            .recorder = config_.recorder};
}

void Worker::initialize() {
    assignment_->state.initialize(*stream_, network_, config_.seed);
    committed_steps_ = 0;
    has_state_ = true;
    holds_committed_ = true;
}

void Worker::load(ValueSource& source, std::int32_t steps) {
    assignment_->state.load(*stream_, source, config_.pulse);
    committed_steps_ = steps;
    has_state_ = true;
    holds_committed_ = true;
}

StepEnd Worker::run_step(Step step, Votes votes) {
    std::vector<std::int64_t> all;  // samples of the step, by microbatch and row
    std::int64_t loss_terms = 0;
    for (std::int32_t m = 0; m < plan().shape.lanes.microbatches; ++m) {
        for (std::int32_t row = 0; row < config_.rows; ++row) {
            all.push_back(sampler_.sample(step, Microbatch{m}, row));
            loss_terms += train_.loss_terms(all.back());
        }
    }
    ENSURE(loss_terms > 0);
    const Task task{.pass = {.mode = Pass::Mode::train,
                             .seed = config_.seed,
                             .step = step,
                             .microbatch = Microbatch{0},
                             .gradient_scale = 1.0 / static_cast<double>(loss_terms)},
                    .dataset = train_,
                    .samples =
                        [&](Microbatch microbatch) {
                            const auto rows = static_cast<std::size_t>(config_.rows);
                            const auto first = all.begin() + static_cast<std::ptrdiff_t>(
                                                                 microbatch.index() * rows);
                            return std::vector<std::int64_t>{first, first + config_.rows};
                        },
                    .loss_terms = loss_terms,
                    .optimizer = &config_.optimizer,
                    .votes = votes};
    const Program& program = assignment_->rest ? *assignment_->rest : assignment_->step;
    Turn turn{bench(assignment_->step_parts, assignment_->losses), program, task};
    const CommStatus status = turn.run();
    if (turn.committed()) {
        committed_steps_ = step.value() + 1;
        holds_committed_ = status == CommStatus::ok;
    }
    agreement_ = turn.agreement();
    // Of a step that broke off, complete lanes may be kept.
    if (status == CommStatus::ok || turn.committed() || turn.used_sums()) {
        for (const auto& stage : assignment_->stages) {
            if (stage) stage->gradients().clear();
        }
        assignment_->rest.reset();
    }
    const StepResult result{step, turn.mean_loss(), turn.gradient_norm(),
                            model::learning_rate(config_.optimizer, step)};
    if (status == CommStatus::ok && !turn.is_finite()) {
        throw DivergedError{"training diverged after " + std::to_string(step.value()) +
                            " steps (loss " + to_text(result.loss) + ", gradient norm " +
                            to_text(result.gradient_norm) + " in the next), " + divergence_hint};
    }
    return {status, turn.committed(), result, turn.votes()};
}

EvaluationEnd Worker::evaluate() {
    ENSURE(assignment_->evaluation_parts.has_value());
    std::int64_t loss_terms = 0;
    for (std::int32_t m = 0; m < evaluation_microbatches(plan()); ++m) {
        for (const std::int64_t sample : first_samples(config_.rows, Microbatch{m})) {
            loss_terms += validation_->loss_terms(sample);
        }
    }
    const Task task{.pass = {.mode = Pass::Mode::evaluate,
                             .seed = config_.seed,
                             .step = Step{committed_steps_},
                             .microbatch = Microbatch{0},
                             .gradient_scale = 1.0},
                    .dataset = *validation_,
                    .samples = [&](Microbatch m) { return first_samples(config_.rows, m); },
                    .loss_terms = loss_terms,
                    .optimizer = nullptr,
                    .votes = vote::all};
    Turn turn{bench(*assignment_->evaluation_parts, assignment_->evaluation_losses),
              assignment_->evaluation, task};
    const CommStatus status = turn.run();
    const double loss = turn.mean_loss();
    if (status == CommStatus::ok && !std::isfinite(loss)) {
        throw DivergedError{"training diverged (the validation loss is " + to_text(loss) + "), " +
                            divergence_hint};
    }
    return {status, loss};
}

CommStatus Worker::expect_finite_parameters() {
    bool finite = true;
    for (const OwnedState& owned : assignment_->state.owned()) {
        stream_->sum_of_squares(assignment_->squares.slice(0, 1), owned.parameter);
        double squares = 0;
        stream_->download(std::as_writable_bytes(std::span{&squares, 1}),
                          assignment_->squares.slice(0, 1));
        const CommStatus status = messenger_.wait(*stream_->record());
        if (status != CommStatus::ok) return status;
        finite = finite && std::isfinite(squares);
    }
    const auto [status, all] = agree(finite ? vote::all : vote::all & ~vote::finite);
    if (status != CommStatus::ok) return status;
    if ((all & vote::finite) == 0) {
        throw DivergedError{std::string{"training diverged in its last step (a parameter is not "
                                        "finite), "} +
                            divergence_hint};
    }
    return CommStatus::ok;
}

Voted Worker::agree(Votes votes) {
    config_.pulse();
    const Voted voted = agree_on(messenger_, votes);
    agreement_ = voted.status;
    return voted;
}

world::Agreement Worker::agree_on_flags(std::uint32_t flags) {
    ENSURE(flags != 0);
    config_.pulse();
    world::Agreement agreement = messenger_.world().agree(flags, messenger_.deadline());
    // Whoever gives up gives no flag at all.
    const bool gave_up = agreement.status == CommStatus::ok && agreement.flags == 0;
    if (gave_up) agreement.status = CommStatus::revoked;
    agreement_ = agreement.status;
    return agreement;
}

CommStatus Worker::abandon() {
    if (abandoned_) return *abandoned_;
    world::World& world = messenger_.world();
    world.revoke();
    // If it was in the agreement that failed, all have met there.
    if (agreement_ == CommStatus::ok) {
        agreement_ = world.agree(0, messenger_.deadline()).status;
    }
    // Who was late for an agreement does not know what the others were told (tests/model).
    const bool late = agreement_ == CommStatus::timed_out;
    const bool settled = messenger_.settle(messenger_.deadline()) == CommStatus::ok;
    abandoned_ = late || !settled ? CommStatus::timed_out : CommStatus::ok;
    return *abandoned_;
}

CommStatus Worker::open_epoch(Nanoseconds deadline) {
    ENSURE(abandoned_ == CommStatus::ok);
    config_.pulse();
    const CommStatus status = messenger_.world().open_epoch(deadline);
    if (status != CommStatus::ok) return status;
    abandoned_.reset();
    agreement_ = CommStatus::ok;
    messenger_.begin_epoch();
    return messenger_.wait(*stream_->record());
}

CommStatus Worker::renew() {
    reach(Phase::renew);
    if (const CommStatus status = messenger_.drain(); status != CommStatus::ok) return status;
    // What follows cannot be given up, so nobody begins it before all are here.
    if (const Voted here = agree(vote::all); here.status != CommStatus::ok) return here.status;
    reach(Phase::renewing);
    agreement_ = messenger_.world().renew(messenger_.deadline());
    return agreement_;
}

recover::Report Worker::report() const {
    const WorkerState& state = assignment_->state;
    recover::Report report{.worker = messenger_.world().self(),
                           .steps = has_state_ ? committed_steps_ : 0};
    report.owns.resize(plan().owners.chunks.size());
    report.holds.resize(static_cast<std::size_t>(network_.size()));
    report.lanes.resize(static_cast<std::size_t>(plan().shape.lanes.lanes));
    if (!has_state_) return report;
    report.lanes = assignment_->lanes_done();
    for (const OwnedState& owned : state.owned()) report.owns[owned.place] = true;
    for (const LayerRange& range : state.layers()) {
        for (std::int32_t layer = range.first; layer < range.last; ++layer) {
            report.holds[static_cast<std::size_t>(layer)] = holds_committed_;
        }
    }
    return report;
}

std::unique_ptr<Assignment> Worker::make_next_assignment(const RunPlan& plan) {
    if (plan.rest) {
        assignment_->drop_memory();
    } else {
        assignment_->stages.clear();
    }
    return make_assignment(plan);
}

void Worker::adopt(std::unique_ptr<Assignment> assignment, Adopt content) {
    if (assignment->rest) {
        assignment->take_lanes(*stream_, *assignment_);
        stream_->synchronize();  // before the one before goes
    }
    assignment_ = std::move(assignment);
    has_state_ = content == Adopt::filled;
    holds_committed_ = true;
}

}  // namespace rhizome::engine
