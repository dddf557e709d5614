#include "cli/train_command.hpp"

#include <cstring>
#include <memory>

#include "cli/memory_limit.hpp"
#include "cli/metrics.hpp"
#include "cli/preparation.hpp"
#include "cli/progress.hpp"
#include "cli/run_layout.hpp"
#include "cli/run_states.hpp"
#include "cli/start_agreement.hpp"
#include "cli/timeline.hpp"
#include "cli/values.hpp"
#include "core/digest.hpp"
#include "core/text.hpp"
#include "engine/state_digest.hpp"
#include "engine/train_loop.hpp"
#include "schedule/draw.hpp"

namespace rhizome::cli {
namespace {

/// What the first member prints, and the others do not.
class Voice final : public engine::TrainObserver {
  public:
    Voice(const TrainSettings& settings, const data::Datasets& datasets, const Clock& clock,
          std::int32_t steps_before, int output)
        : output_{output},
          progress_{ProgressConfig{.steps = settings.config.steps,
                                   .steps_before = steps_before,
                                   .tokens_per_step = samples_per_step(settings.config) *
                                                      settings.config.model.context,
                                   .samples_per_step = samples_per_step(settings.config),
                                   .samples_per_pass = datasets.train->samples(),
                                   .log_interval = settings.config.log_interval},
                    settings.screen, clock,
                    [output](std::string_view text) { write_all(output, text); }} {}

    void on_step(const engine::StepResult& result) override { progress_.on_step(result); }
    void on_evaluation(std::int32_t steps, double loss) override {
        progress_.on_evaluation(steps, loss);
    }
    void on_save(const engine::SaveEnd& end) {
        const double seconds = std::chrono::duration<double>(end.took).count();
        progress_.say(end.steps, "saved " + visible(end.path) + "  " +
                                     to_short(static_cast<double>(end.bytes)) + "B in " +
                                     to_text_short(seconds) + " s");
    }
    void table(const std::vector<std::pair<std::string, std::string>>& extra) {
        write_all(output_, "\n" + progress_.table(extra));
    }

  private:
    int output_;
    Progress progress_;
};

/// Tells all of these the same; maybe there are none.
class Observers final : public engine::TrainObserver {
  public:
    void add(engine::TrainObserver& observer) { all_.push_back(&observer); }

    void on_step(const engine::StepResult& result) override {
        for (engine::TrainObserver* each : all_) each->on_step(result);
    }
    void on_evaluation(std::int32_t steps, double loss) override {
        for (engine::TrainObserver* each : all_) each->on_evaluation(steps, loss);
    }

  private:
    std::vector<engine::TrainObserver*> all_;
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
    void make_saver(const std::string& folder, std::optional<std::int32_t> saved);
    void on_save(const engine::SaveEnd& end);
    [[nodiscard]] engine::TrainEnd train();
    [[nodiscard]] ExitCode end_in_order(const engine::TrainEnd& end);
    [[nodiscard]] ExitCode say_end(const engine::TrainEnd& end);
    void table(const std::vector<std::pair<std::string, std::string>>& extra);
    void finish(ExitCode code, const std::string& reason, std::int32_t steps);
    [[nodiscard]] CommStatus agree_to_end();
    [[nodiscard]] std::string what_is_left() const;
    [[nodiscard]] std::string loss_text(CommStatus status, std::int32_t steps) const;

    const TrainSettings& settings_;
    const RunConfig& config_;
    world::World& world_;
    const Log& log_;
    int output_;
    bool speaks_;
    std::shared_ptr<state::FileSystem> files_ = state::make_file_system();
    std::unique_ptr<Preparation> prepared_;
    std::optional<TimelineFile> timeline_;
    std::unique_ptr<engine::Worker> worker_;
    std::unique_ptr<RunStates> states_;
    std::unique_ptr<engine::Background> background_;
    std::optional<engine::Saver> saver_;
    std::optional<Voice> voice_;
    std::optional<Metrics> metrics_;
    std::int32_t first_step_ = 0;
};

Training::Training(const TrainSettings& settings, world::World& world, const Log& log, int output)
    : settings_{settings},
      config_{settings.config},
      world_{world},
      log_{log},
      output_{output},
      speaks_{world::is_first(world)} {
    const Nanoseconds patience = to_nanoseconds(config_.bounds.wait_s);
    if (speaks_) write_all(output, to_text(config_) + "\n");
    prepared_ = agree_to_start(world, patience,
                               [&] { return std::make_unique<Preparation>(settings, world); });
    agree_on(world, patience, digest_of(prepared_->plan),
             ConfigError{"the layout (differs between ranks), give all of them the same pipelines, "
                         "cut, style and owners, and one file of costs"});
    if (speaks_) {
        warn(settings_, *prepared_, log);
        write_all(output, summary(config_, *prepared_));
    }
    make_worker();
    begin();
    if (speaks_) write_all(output, "\n");
    if (speaks_) watch();
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
        engine::WorkerConfig{.seed = config_.seed,
                             .rows = config_.microbatch_size,
                             .optimizer = config_.optimizer,
                             .patience = to_nanoseconds(config_.bounds.wait_s),
                             .begin = engine::Begin::loaded,
                             .pulse = settings_.pulse,
                             .recorder = timeline_ ? &*timeline_ : nullptr});
}

/// What the first member tells of the run.
void Training::watch() {
    voice_.emplace(settings_, prepared_->datasets, world_.clock(), first_step_, output_);
    if (!settings_.folder) return;
    metrics_.emplace(settings_.folder->path(), samples_per_step(config_) * config_.model.context,
                     world_.clock(), log_);
    const LayerTable& table = prepared_->network.table();
    metrics_->on_start(
        {.time = std::chrono::system_clock::now(),
         .program = "rhizome " RHIZOME_VERSION,
         .steps = config_.steps,
         .steps_done = first_step_,
         .workers = static_cast<std::int64_t>(world_.members().size()),
         .mathematics = mathematics_digest(config_, prepared_->datasets.train_digest),
         .fingerprint = prepared_->computing().fingerprint(),
         .layout = layout_text(config_, prepared_->plan, prepared_->costs, table)});
}

/// Goes on from the newest state in the run's folder, or from the one that was named, or begins.
void Training::begin() {
    const Nanoseconds patience = to_nanoseconds(config_.bounds.wait_s);
    states_ = std::make_unique<RunStates>(
        files_, identity_of(config_, prepared_->datasets, prepared_->computing().fingerprint()),
        prepared_->network.table(), log_);
    std::optional<RunStates::Found> found;
    const std::string folder = settings_.folder ? states_folder(settings_.folder->path()) : "";
    if (!folder.empty()) found = states_->load_newest(*worker_, patience, folder);
    const bool own = found.has_value();
    if (!found && !config_.from.empty()) {
        found = states_->load_from(*worker_, patience, config_.from);
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
    if (speaks_ && found) write_all(output_, "goes on from " + visible(found->path) + "\n");
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
        if (metrics_) {
            metrics_->on_save({.steps = end.steps,
                               .seconds = std::chrono::duration<double>(end.took).count(),
                               .bytes = end.bytes,
                               .path = end.path});
        }
        return;
    }
    states_->note(end.steps, "save failed", end.problem);
    if (metrics_) metrics_->on_failed_save(end.steps, end.problem);
    log_.warn("state " + visible(end.path) + " was not saved (" + end.problem +
              "), the run goes on and older states are as they were");
}

void Training::table(const std::vector<std::pair<std::string, std::string>>& extra) {
    if (voice_) voice_->table(extra);
}

/// Says once for the run how it ended: in its folder, where the first word holds and the launcher
/// reads it, otherwise here.
void Training::finish(ExitCode code, const std::string& reason, std::int32_t steps) {
    if (metrics_) metrics_->on_end(code, reason, steps);
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

std::string Training::loss_text(CommStatus status, std::int32_t steps) const {
    std::string what = "a worker was lost";
    if (status == CommStatus::revoked) what = "another worker gave it up, see what it said";
    if (status == CommStatus::timed_out) {
        what = "a worker or the device did not answer within bounds.wait_s=" +
               rhizome::to_text(config_.bounds.wait_s);
    }
    return "the run ended after " + counted(steps, "step") + " (" + what + "), " + what_is_left();
}

/// The last agreement: then nobody needs anybody any more.
CommStatus Training::agree_to_end() { return worker_->agree(engine::vote::all).status; }

/// The end of a run that trained to its end, or was stopped before it.
ExitCode Training::end_in_order(const engine::TrainEnd& end) {
    const engine::DigestEnd digests = engine::gather_digests(*worker_, prepared_->network.table());
    if (timeline_) timeline_->finish();  // before the last agreement: then all are there
    const CommStatus status = digests.status == CommStatus::ok ? agree_to_end() : digests.status;
    if (status != CommStatus::ok) {
        finish(ExitCode::peer_lost, loss_text(status, end.steps_done), end.steps_done);
        return ExitCode::peer_lost;
    }
    if (speaks_ && settings_.print_digests) {
        std::string text = "\n";
        for (const engine::ChunkDigest& chunk : digests.chunks) {
            text += chunk.hex + "  " + chunk.name + "\n";
        }
        write_all(output_, text);
    }
    if (speaks_) {
        table({{"memory", to_short(memory_peak_bytes()) + "B at most in this process, " +
                              to_short(static_cast<double>(prepared_->memory.total())) +
                              "B planned for tensors"},
               {"weights", engine::digest_of(digests.chunks)}});
    }
    if (const auto& folder = settings_.folder; speaks_ && timeline_ && folder) {
        merge_timelines(*files_, folder->path(), log_);
    }
    return say_end(end);
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
    if (speaks_) finish(code, reason, end.steps_done);
    return code;
}

engine::TrainEnd Training::train() {
    engine::TrainLoopConfig loop{.steps = config_.steps,
                                 .first_step = first_step_,
                                 .evaluate_interval = config_.evaluate_interval,
                                 .saver = saver_ ? &*saver_ : nullptr,
                                 .save_interval = config_.save_interval};
    loop.stop_asked = [this] { return speaks_ && settings_.hears_stop(); };
    loop.save_asked = [this] { return speaks_ && settings_.hears_save(); };
    loop.on_loss = [this](CommStatus status, std::int32_t steps_done) {
        if (timeline_) timeline_->finish();
        table({});
        finish(ExitCode::peer_lost, loss_text(status, steps_done), steps_done);
    };
    Observers observers;
    if (voice_) observers.add(*voice_);
    if (metrics_) observers.add(*metrics_);
    return engine::train(*worker_, loop, observers);
}

ExitCode Training::run() {
    try {
        const engine::TrainEnd end = train();
        return end.status == CommStatus::ok ? end_in_order(end) : ExitCode::peer_lost;
    } catch (const DivergedError& error) {
        // All workers are here: they know the same numbers.
        if (timeline_) timeline_->finish();
        table({});
        if (speaks_) finish(ExitCode::diverged, error.what(), worker_->committed_steps());
        return ExitCode::diverged;
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
