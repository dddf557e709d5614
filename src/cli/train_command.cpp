#include "cli/train_command.hpp"

#include <cstring>
#include <memory>

#include "cli/faults.hpp"
#include "cli/memory_limit.hpp"
#include "cli/preparation.hpp"
#include "cli/run_layout.hpp"
#include "cli/run_repair.hpp"
#include "cli/run_states.hpp"
#include "cli/start_agreement.hpp"
#include "cli/timeline.hpp"
#include "cli/values.hpp"
#include "cli/voice.hpp"
#include "core/digest.hpp"
#include "core/text.hpp"
#include "engine/state_digest.hpp"
#include "engine/train_loop.hpp"
#include "schedule/draw.hpp"

namespace rhizome::cli {
namespace {

/// The voice, and what else happens at a repair.
class Observer final : public engine::TrainObserver {
  public:
    Observer(Voice& voice, engine::Recorder* timeline,
             std::function<void(const engine::RepairRecord&)> on_repair)
        : voice_{voice}, timeline_{timeline}, on_repair_{std::move(on_repair)} {}

    void on_step(const engine::StepResult& result) override { voice_.on_step(result); }
    void on_evaluation(std::int32_t steps, double loss) override {
        voice_.on_evaluation(steps, loss);
    }
    void on_repair(const engine::RepairRecord& record) override { on_repair_(record); }
    void on_renewal(std::int32_t steps, engine::Interval when) override {
        voice_.on_renewal(steps, when);
        if (timeline_ != nullptr) timeline_->named("renewal", when);
    }

  private:
    Voice& voice_;
    engine::Recorder* timeline_;  // may be null
    std::function<void(const engine::RepairRecord&)> on_repair_;
};

std::uint64_t digest_of(const engine::RunPlan& plan) {
    Digest digest;
    digest.add_text(schedule::to_text(plan.step));
    if (plan.evaluation) digest.add_text(schedule::to_text(*plan.evaluation));
    for (const OwnedChunk& each : plan.owners.chunks) {
        for (const WorkerId owner : each.owners) digest.add_text(std::to_string(owner.value()));
    }
    const auto bytes = digest.bytes();
    std::uint64_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof number);
    return number;
}

/// The training of one worker, from its preparation to its exit code.
class Training {
  public:
    Training(const TrainSettings& settings, world::World& world, const Log& log, int output);

    [[nodiscard]] ExitCode run();

  private:
    void make_worker();
    void begin();
    void watch();
    void plan_repairs();
    [[nodiscard]] CommStatus load_again(engine::Worker& worker);
    void on_repair(const engine::RepairRecord& record);
    [[nodiscard]] bool speaks() const { return world::is_first(world_); }
    void make_saver(const std::string& folder, std::optional<std::int32_t> saved);
    void on_save(const engine::SaveEnd& end);
    [[nodiscard]] engine::TrainEnd train();
    [[nodiscard]] ExitCode end_in_order(const engine::TrainEnd& end);
    [[nodiscard]] ExitCode say_end(const engine::TrainEnd& end);
    void table(const std::vector<std::pair<std::string, std::string>>& extra);
    void finish(ExitCode code, const std::string& reason, std::int32_t steps);
    [[nodiscard]] CommStatus part();
    [[nodiscard]] ExitCode end_of_loss(const engine::TrainEnd& end);
    [[nodiscard]] std::string what_is_left() const;
    [[nodiscard]] std::string loss_text(const engine::TrainEnd& end) const;

    const TrainSettings& settings_;
    const RunConfig& config_;
    world::World& world_;
    const Log& log_;
    int output_;
    std::shared_ptr<state::FileSystem> files_ = state::make_file_system();
    std::unique_ptr<Preparation> prepared_;
    std::optional<TimelineFile> timeline_;
    std::unique_ptr<engine::Worker> worker_;
    std::unique_ptr<RunStates> states_;
    std::unique_ptr<engine::Background> background_;
    std::optional<engine::Saver> saver_;
    std::unique_ptr<engine::RepairConfig> repair_;
    std::unique_ptr<Voice> voice_;
    engine::DigestEnd digests_{CommStatus::ok, {}};  // of all, at the end, on the first member
    std::string fence_;                              // why this worker may not go on, if so
    std::int32_t first_step_ = 0;
};

Training::Training(const TrainSettings& settings, world::World& world, const Log& log, int output)
    : settings_{settings}, config_{settings.config}, world_{world}, log_{log}, output_{output} {
    const Nanoseconds patience = to_nanoseconds(config_.bounds.wait_s);
    if (speaks()) write_all(output, to_text(config_) + "\n");
    prepared_ = agree_to_start(world, patience,
                               [&] { return std::make_unique<Preparation>(settings, world); });
    agree_on(world, patience, digest_of(prepared_->plan),
             ConfigError{"the layout (differs between ranks), give all of them the same pipelines, "
                         "cut, style and owners, and one file of costs"});
    if (speaks()) {
        warn(settings_, *prepared_, log);
        write_all(output, summary(config_, *prepared_));
    }
    make_worker();
    begin();
    if (speaks()) write_all(output, "\n");
    watch();
    plan_repairs();
}

void Training::make_worker() {
    world::World& linked = prepared_->paced_world ? *prepared_->paced_world : world_;
    if (settings_.folder && config_.timeline) {
        timeline_.emplace(files_,
                          TimelineFile::Config{.folder = settings_.folder->path(),
                                               .steps = *config_.timeline,
                                               .worker = world_.self(),
                                               .members = world_.members(),
                                               .wall_offset = wall_offset(world_.clock())},
                          log_);
    }
    worker_ = std::make_unique<engine::Worker>(
        prepared_->computing(), prepared_->network, *prepared_->datasets.train,
        prepared_->datasets.validation.get(), linked, prepared_->plan,
        engine::WorkerConfig{
            .seed = config_.seed,
            .rows = config_.microbatch_size,
            .optimizer = config_.optimizer,
            .patience = to_nanoseconds(config_.bounds.wait_s),
            .begin = engine::Begin::loaded,
            .pulse = settings_.pulse,
            .recorder = timeline_ ? &*timeline_ : nullptr,
            .probe = probe_of(config_.faults, settings_.start, world_, settings_.folder)});
}

void Training::watch() {
    const std::int64_t tokens_per_step = samples_per_step(config_) * config_.model.context;
    voice_ = std::make_unique<Voice>(
        Voice::Config{.progress = {.steps = config_.steps,
                                   .steps_before = first_step_,
                                   .tokens_per_step = tokens_per_step,
                                   .samples_per_step = samples_per_step(config_),
                                   .samples_per_pass = prepared_->datasets.train->samples(),
                                   .log_interval = config_.log_interval},
                      .screen = settings_.screen,
                      .output = output_,
                      .folder = settings_.folder ? settings_.folder->path() : "",
                      .tokens_per_step = tokens_per_step},
        world_.clock(), log_, speaks() ? Speaks::yes : Speaks::no);
    voice_->on_start({.time = std::chrono::system_clock::now(),
                      .program = "rhizome " RHIZOME_VERSION,
                      .steps = config_.steps,
                      .steps_done = first_step_,
                      .workers = static_cast<std::int64_t>(world_.members().size()),
                      .mathematics = mathematics_digest(config_, prepared_->datasets.train_digest),
                      .fingerprint = prepared_->computing().fingerprint(),
                      .layout = layout_text(config_, prepared_->plan, prepared_->costs,
                                            prepared_->network.table())});
}

void Training::plan_repairs() {
    repair_ = std::make_unique<engine::RepairConfig>(repair_config(config_, *prepared_));
    repair_->is_allowed = [this](const world::World& world) {
        if (!settings_.folder) return true;
        const auto fence = settings_.folder->open_epoch(world.epoch(), world.members());
        fence_ = fence.value_or("");
        return !fence;
    };
    repair_->load = [this](engine::Worker& worker) { return load_again(worker); };
}

/// The newest whole state, or the beginning.
CommStatus Training::load_again(engine::Worker& worker) {
    try {
        const std::string folder = settings_.folder ? states_folder(settings_.folder->path()) : "";
        if (!folder.empty() && states_->load_newest_again(worker, folder)) return CommStatus::ok;
        if (!config_.from.empty()) {
            static_cast<void>(states_->load_from(worker, config_.from));
        } else {
            worker.initialize();
        }
        return CommStatus::ok;
    } catch (const UserError& error) {
        if (error.code() == ExitCode::peer_lost) return CommStatus::peer_lost;
        throw;
    }
}

void Training::on_repair(const engine::RepairRecord& record) {
    if (speaks()) voice_->take_over();
    voice_->on_repair(record);
    const bool replan = record.between_steps();
    states_->note(record.steps, replan ? "replanned" : "repaired", to_text(record));
    if (timeline_) timeline_->named(replan ? "replan" : "repair", {record.began, record.ended});
}

/// Goes on from the newest state in the run's folder, or from the one that was named, or begins.
void Training::begin() {
    const Nanoseconds patience = to_nanoseconds(config_.bounds.wait_s);
    states_ = std::make_unique<RunStates>(
        files_, identity_of(config_, prepared_->datasets, prepared_->computing().fingerprint()),
        prepared_->network.table(), log_);
    std::optional<RunStates::Found> found;
    const std::string folder = settings_.folder ? states_folder(settings_.folder->path()) : "";
    if (!folder.empty()) found = states_->load_newest(*worker_, folder);
    const bool own = found.has_value();
    if (!found && !config_.from.empty()) {
        found = states_->load_from(*worker_, config_.from);
    }
    std::optional<UserError> beyond;
    if (found && found->steps > config_.steps) {
        beyond = ConfigError{"steps=" + std::to_string(config_.steps) + " (state " +
                             visible(found->path) + " has " + std::to_string(found->steps) +
                             "), take more steps, or another folder"};
    }
    agree_to_start(world_, patience, beyond);
    if (!found) worker_->initialize();
    if (found) first_step_ = found->steps;
    const std::string how = "pipelines=" + depths_text(config_.depths) + ", " +
                            counted(static_cast<std::int64_t>(world_.members().size()), "worker");
    states_->note(first_step_, found ? "resumed" : "started",
                  found ? how + ", from " + found->path : how);
    if (speaks() && found) write_all(output_, "goes on from " + visible(found->path) + "\n");
    if (!folder.empty()) make_saver(folder, own ? std::optional{first_step_} : std::nullopt);
}

void Training::make_saver(const std::string& folder, std::optional<std::int32_t> saved) {
    background_ = engine::make_background_thread();
    saver_.emplace(
        *worker_, prepared_->network.table(), *background_,
        engine::SaverConfig{.files = files_,
                            .folder = folder,
                            .keep = {.last = config_.save_keep, .every = config_.save_keep_every},
                            .facts = [this](std::int32_t steps) { return states_->facts(steps); },
                            .on_end = [this](const engine::SaveEnd& end) { on_save(end); },
                            .on_prune_problem =
                                [this](const std::string& problem) {
                                    log_.warn("an old state could not be removed: " + problem);
                                }},
        saved);
}

void Training::on_save(const engine::SaveEnd& end) {
    const Nanoseconds now = world_.clock().now();
    if (timeline_) timeline_->named("save", {now - end.took, now});
    if (end.problem.empty()) {
        if (voice_) voice_->on_save(end);
        return;
    }
    states_->note(end.steps, "save failed", end.problem);
    if (voice_) voice_->on_failed_save(end);
    log_.warn("state " + visible(end.path) + " was not saved (" + end.problem +
              "), the run goes on and older states are as they were");
}

void Training::table(const std::vector<std::pair<std::string, std::string>>& extra) {
    if (voice_) voice_->table(extra);
}

/// Says once for the run how it ended: in its folder, where the first word holds and the launcher
/// reads it, otherwise here.
void Training::finish(ExitCode code, const std::string& reason, std::int32_t steps) {
    if (voice_) voice_->on_end(code, reason, steps);
    if (settings_.folder) {
        const world::Marked marked = settings_.folder->finish(code, reason);
        if (!marked.problem) return;
        log_.warn("the run's end could not be written to " + settings_.folder->path() + " (" +
                  marked.problem.message() + ")");
    }
    if (code != ExitCode::done) log_.error(reason);
}

std::string Training::what_is_left() const {
    if (!saver_) return "what it had trained is gone";
    const auto saved = saver_->saved_steps();
    return saved ? "started again it goes on after step " + std::to_string(*saved)
                 : "nothing had been saved yet";
}

std::string Training::loss_text(const engine::TrainEnd& end) const {
    return "the run ended after " + counted(end.steps_done, "step") + " (" + end.parked + "), " +
           what_is_left();
}

/// What all do together when the training is over; a loss lets them begin it again.
CommStatus Training::part() {
    digests_ = engine::gather_digests(*worker_, prepared_->network.table());
    if (digests_.status != CommStatus::ok) return digests_.status;
    if (timeline_) timeline_->finish();  // before the last agreement: then all are there
    // Then nobody needs anybody any more.
    return worker_->agree(engine::vote::all).status;
}

/// The end of a run that trained to its end, or was stopped before it.
ExitCode Training::end_in_order(const engine::TrainEnd& end) {
    if (speaks() && settings_.print_digests) {
        std::string text = "\n";
        for (const engine::ChunkDigest& chunk : digests_.chunks) {
            text += chunk.hex + "  " + chunk.name + "\n";
        }
        write_all(output_, text);
    }
    table({{"memory", to_short(memory_peak_bytes()) + "B at most in this process, " +
                          to_short(static_cast<double>(prepared_->memory.total())) +
                          "B planned for tensors"},
           {"weights", engine::digest_of(digests_.chunks)}});
    if (const auto& folder = settings_.folder; speaks() && timeline_ && folder) {
        merge_timelines(*files_, folder->path(), log_);
    }
    return say_end(end);
}

/// Of a loss that could not be repaired.
ExitCode Training::end_of_loss(const engine::TrainEnd& end) {
    if (timeline_) timeline_->finish();
    if (!end.parked.empty()) {  // for all who live
        const std::string reason = loss_text(end);
        // The first member may be among the lost: whose word is the first one speaks.
        const auto& folder = settings_.folder;
        if (folder && folder->finish(ExitCode::peer_lost, reason).mine) voice_->take_over();
        table({});
        finish(ExitCode::peer_lost, reason, end.steps_done);
        return ExitCode::peer_lost;
    }
    // Others may go on, so this is not the end of the run.
    const std::string why =
        fence_.empty() ? "the others did not answer within bounds.wait_s=" +
                             rhizome::to_text(config_.bounds.wait_s) +
                             " or bounds.repair_s=" + rhizome::to_text(config_.bounds.repair_s)
                       : fence_;
    if (settings_.folder && fence_.empty()) {
        const auto problem = settings_.folder->leave(world_.epoch(), world_.self(), why);
        if (problem) log_.warn("no word of it is left in the folder (" + problem.message() + ")");
    }
    log_.error("worker " + std::to_string(world_.self().value()) + " leaves the run after " +
               counted(end.steps_done, "step") + " (" + why + "), " + what_is_left());
    return ExitCode::peer_lost;
}

ExitCode Training::say_end(const engine::TrainEnd& end) {
    const bool unsaved = saver_ && saver_->saved_steps() != end.steps_done;
    ExitCode code = end.stopped ? ExitCode::stopped : ExitCode::done;
    std::string reason = end.stopped ? "stopped after " + counted(end.steps_done, "step") +
                                           " (somebody asked for it), " + what_is_left()
                                     : "all steps were done";
    if (unsaved) {
        code = ExitCode::unsaved;
        reason = "the run ended after " + counted(end.steps_done, "step") +
                 " (its last state could not be saved), " + what_is_left();
    }
    if (speaks()) {
        finish(code, reason, end.steps_done);
    } else if (settings_.folder) {
        // The first member may be lost before it has said so.
        static_cast<void>(settings_.folder->finish(code, reason));
    }
    return code;
}

engine::TrainEnd Training::train() {
    engine::TrainLoopConfig loop{.steps = config_.steps,
                                 .first_step = first_step_,
                                 .evaluate_interval = config_.evaluate_interval,
                                 .saver = saver_ ? &*saver_ : nullptr,
                                 .save_interval = config_.save_interval};
    loop.stop_asked = [this] { return speaks() && settings_.hears_stop(); };
    loop.save_asked = [this] { return speaks() && settings_.hears_save(); };
    loop.repair = repair_.get();
    loop.calm = to_nanoseconds(config_.losses.calm_s);
    loop.part = [this] { return part(); };
    Observer observer{*voice_, timeline_ ? &*timeline_ : nullptr,
                      [this](const engine::RepairRecord& record) { on_repair(record); }};
    return engine::train(*worker_, loop, observer);
}

ExitCode Training::run() {
    try {
        const engine::TrainEnd end = train();
        return end.status == CommStatus::ok ? end_in_order(end) : end_of_loss(end);
    } catch (const DivergedError& error) {
        // All workers are here: they know the same numbers.
        if (timeline_) timeline_->finish();
        table({});
        if (speaks()) finish(ExitCode::diverged, error.what(), worker_->committed_steps());
        return ExitCode::diverged;
    } catch (const UserError& error) {
        // No state is whole any more, after a loss that took more than there were copies.
        voice_->on_end(error.code(), error.what(), worker_->committed_steps());
        throw;
    }
}

}  // namespace

bool TrainSettings::hears_stop() const {
    if (stop_asked) return stop_asked();
    return folder && folder->stop_asked();
}

bool TrainSettings::hears_save() const {
    if (save_asked) return save_asked();
    return folder && folder->take_save_word();
}

ExitCode train_command(const TrainSettings& settings, world::World& world, const Log& log,
                       int output) {
    return Training{settings, world, log, output}.run();
}

}  // namespace rhizome::cli
