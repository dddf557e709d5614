#include "engine/worker.hpp"

#include <algorithm>
#include <cmath>

#include "core/text.hpp"

namespace rhizome::engine {

using model::Pass;

namespace {

constexpr const char* divergence_hint = "take a lower optimizer.learning_rate or more warm-up";

std::vector<LayerRange> layers_of(const RunShape& shape, WorkerId self) {
    std::vector<LayerRange> layers;
    for (const PipelineShape& pipeline : shape.pipelines) {
        for (const StageShape& stage : pipeline.stages) {
            if (stage.worker == self) layers.push_back(stage.layers);
        }
    }
    return layers;
}

/// Both lists use the same memory, one after the other.
std::map<StageId, StageMemory::Counts> counts_of(const Program& step, const Program& evaluation) {
    auto counts = step.counts;
    for (const auto& [stage, needed] : evaluation.counts) {
        StageMemory::Counts& count = counts.at(stage);
        count.slots = std::max(count.slots, needed.slots);
        count.work_areas = std::max(count.work_areas, needed.work_areas);
    }
    return counts;
}

Program step_program(const RunPlan& plan, WorkerId self) { return compile(plan.step, self, 0); }

Program evaluation_program(const RunPlan& plan, WorkerId self) {
    return plan.evaluation ? compile(*plan.evaluation, self, world::World::tag_max / 2) : Program{};
}

std::int32_t evaluation_microbatches(const RunPlan& plan) {
    return plan.evaluation ? plan.evaluation->shape.lanes.microbatches : 0;
}

/// Numbers beside tensors: losses by microbatch, sums of squares by chunk.
struct Scalars {
    std::int64_t losses;
    std::int64_t squares;
};

Scalars scalars_of(const RunPlan& plan, const Parts& step_parts) {
    return {.losses = std::max(plan.shape.lanes.microbatches, evaluation_microbatches(plan)),
            .squares =
                std::max<std::int64_t>(1, static_cast<std::int64_t>(step_parts.chunks().size()))};
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
    : network_{network},
      train_{train},
      validation_{validation},
      config_{config},
      plan_{plan},
      sampler_{config.seed, train.samples(), plan.shape.lanes.microbatches, config.rows},
      stream_{device.make_stream()},
      messenger_{world, config.patience, config.recorder},
      step_{step_program(plan_, world.self())},
      evaluation_{evaluation_program(plan_, world.self())},
      state_{device, network.table(), layers_of(plan_.shape, world.self()), plan_.owners,
             world.self()},
      exchange_{device,
                network.table(),
                plan_.shape,
                plan_.owners,
                world.self(),
                state_,
                plan_.step.programs[plan_.shape.place_of(world.self())]},
      step_parts_{plan_.shape, &plan_.owners, world.self()} {
    ENSURE(world.members() == plan_.shape.workers);
    ENSURE(!plan_.evaluation || validation_ != nullptr);
    if (plan_.evaluation) {
        evaluation_parts_.emplace(plan_.evaluation->shape, nullptr, world.self());
    }
    const auto [losses, squares] = scalars_of(plan_, step_parts_);
    scalars_ = device.allocate((losses + squares) * bytes_of(DType::f64));
    const device::Tensor all = scalars_.at(0, {"scalars", Shape{losses + squares}, DType::f64});
    losses_ = all.slice(0, losses);
    squares_ = all.slice(losses, squares);
    add_stages(device, train.fields());
    if (config.begin == Begin::initial) initialize();
    stream_->synchronize();
}

void Worker::add_stages(device::Device& device, std::span<const TensorSpec> fields) {
    const WorkerId self = messenger_.world().self();
    const auto pipeline_id = plan_.shape.pipeline_of(self);
    if (!pipeline_id) return;
    const PipelineShape& pipeline = plan_.shape.pipelines[pipeline_id->index()];
    const auto counts = counts_of(step_, evaluation_);
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
        auto& stage = stages_.emplace_back();
        if (pipeline.stages[s].worker != self) continue;
        stage = std::make_unique<Stage>(
            device, *stream_, network_, pipeline.stages[s].layers, fields, config_.rows,
            counts.at(StageId{static_cast<std::int32_t>(s)}), plan_.shape.lanes, pipeline.lanes);
    }
}

MemoryPlan Worker::plan_memory(const model::Network& network, std::span<const TensorSpec> fields,
                               const RunPlan& plan, WorkerId self, std::int32_t rows) {
    const LayerTable& table = network.table();
    const Scalars scalars = scalars_of(plan, Parts{plan.shape, &plan.owners, self});
    MemoryPlan memory{
        .held =
            (scalars.losses + scalars.squares) * bytes_of(DType::f64) +
            WorkerState::planned_bytes(network, layers_of(plan.shape, self), plan.owners, self) +
            ChunkExchange::planned_bytes(table, plan.shape, plan.owners, self,
                                         plan.step.programs[plan.shape.place_of(self)]),
        .workspace = model::largest_tensor(network)};
    if (const auto id = plan.shape.pipeline_of(self)) {
        const PipelineShape& pipeline = plan.shape.pipelines[id->index()];
        const auto counts = counts_of(step_program(plan, self), evaluation_program(plan, self));
        for (const auto& [stage, count] : counts) {
            const LayerRange layers = pipeline.stages[stage.index()].layers;
            memory.held += StageMemory::planned_bytes(network, layers, fields, rows, count);
            memory.held += GradientSum::sets_in_order(plan.shape.lanes, pipeline.lanes) *
                           model::TensorSet::planned_bytes(table, model::TiedTensors::separate,
                                                           std::span{&layers, 1});
        }
    }
    return memory;
}

Workbench Worker::bench(Parts& parts) {
    return {.stream = *stream_,
            .messenger = messenger_,
            .parameters = state_.parameters(),
            .stages = stages_,
            .exchange = exchange_,
            .parts = parts,
            .losses = losses_,
            .squares = squares_,
            .pulse = config_.pulse,
            .recorder = config_.recorder};
}

void Worker::initialize() { state_.initialize(*stream_, network_, config_.seed); }

void Worker::load(ValueSource& source, std::int32_t steps) {
    state_.load(*stream_, source, config_.pulse);
    committed_steps_ = steps;
}

StepEnd Worker::run_step(Step step, Votes votes) {
    std::vector<std::int64_t> all;  // samples of the step, by microbatch and row
    std::int64_t loss_terms = 0;
    for (std::int32_t m = 0; m < plan_.shape.lanes.microbatches; ++m) {
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
    Turn turn{bench(step_parts_), step_, task};
    const CommStatus status = turn.run();
    if (turn.committed()) committed_steps_ = step.value() + 1;
    gave_up_ = turn.gave_up();
    for (const auto& stage : stages_) {
        if (stage) stage->gradients().clear();
    }
    const StepResult result{step, turn.mean_loss(), turn.gradient_norm(),
                            model::learning_rate(config_.optimizer, step)};
    if (status == CommStatus::ok && !turn.is_finite()) {
        throw DivergedError{"training diverged after " + std::to_string(step.value()) +
                            " steps (loss " + to_text(result.loss) + ", gradient norm " +
                            to_text(result.gradient_norm) + " in the next), " + divergence_hint};
    }
    return {status, result, turn.votes()};
}

EvaluationEnd Worker::evaluate() {
    ENSURE(evaluation_parts_.has_value());
    std::int64_t loss_terms = 0;
    for (std::int32_t m = 0; m < evaluation_microbatches(plan_); ++m) {
        for (const std::int64_t sample : first_samples(config_.rows, Microbatch{m})) {
            loss_terms += validation_->loss_terms(sample);
        }
    }
    const Task task{.pass = {.mode = Pass::Mode::evaluate,
                             .seed = config_.seed,
                             .step = Step{0},
                             .microbatch = Microbatch{0},
                             .gradient_scale = 1.0},
                    .dataset = *validation_,
                    .samples = [&](Microbatch m) { return first_samples(config_.rows, m); },
                    .loss_terms = loss_terms,
                    .optimizer = nullptr,
                    .votes = vote::all};
    Turn turn{bench(*evaluation_parts_), evaluation_, task};
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
    for (const OwnedState& owned : state_.owned()) {
        stream_->sum_of_squares(squares_.slice(0, 1), owned.parameter);
        double squares = 0;
        stream_->download(std::as_writable_bytes(std::span{&squares, 1}), squares_.slice(0, 1));
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
    gave_up_ = voted.status != CommStatus::ok;
    return voted;
}

void Worker::abandon() {
    world::World& world = messenger_.world();
    world.revoke();
    if (gave_up_) return;  // it was in the agreement that failed: all have met there
    // How it ends changes nothing any more here; the others learn that this worker gave up.
    static_cast<void>(world.agree(0, messenger_.deadline()));
}

}  // namespace rhizome::engine
