#include "engine/train_loop.hpp"

#include <algorithm>
#include <vector>

namespace rhizome::engine {
namespace {

bool is_due(std::int32_t interval, std::int32_t steps) {
    return interval > 0 && steps % interval == 0;
}

/// What workers tell each other after a loss, for one may have come further than another.
struct Notes {
    std::int32_t tended;  // after so many steps everything due was done
    Saver::Notes saver{};
    bool save_heard = false;  // a wish for a save, before a step that was not committed

    [[nodiscard]] std::vector<std::int32_t> numbers() const {
        return {tended, saver.saved.value_or(-1), saver.wanted || save_heard ? 1 : 0};
    }
    /// What all go on with.
    [[nodiscard]] static Notes of_all(const std::vector<recover::Report>& reports) {
        Notes all{.tended = reports.front().notes[0]};
        for (const recover::Report& report : reports) {
            all.tended = std::min(all.tended, report.notes[0]);
            if (report.notes[1] >= 0) {
                all.saver.saved = std::max(all.saver.saved.value_or(0), report.notes[1]);
            }
            all.saver.wanted = all.saver.wanted || report.notes[2] != 0;
        }
        return all;
    }
};

class Loop {
  public:
    Loop(Worker& worker, const TrainLoopConfig& config, TrainObserver& observer)
        : worker_{worker},
          config_{config},
          observer_{observer},
          done_{config.first_step},
          tended_{config.first_step},
          calm_since_{now()},
          reached_{now()} {}

    [[nodiscard]] TrainEnd run() {
        bool ended = false;
        while (!ended) {
            CommStatus status = CommStatus::ok;
            Attempted attempted{now(), done_};
            if (tended_ < done_) {
                status = tend();
            } else if (stopped_ || done_ >= config_.steps) {
                status = end();
                ended = status == CommStatus::ok;
            } else if (may_replan() && saver_is_idle()) {
                attempted.trains = false;
                status = replan();
            } else if (may_renew()) {
                attempted.trains = false;
                status = renew();
            } else {
                status = step();
            }
            if (status != CommStatus::ok) status = go_on_after(status, attempted);
            if (status != CommStatus::ok) return {status, done_, false, parked_};
        }
        return {CommStatus::ok, done_, stopped_, ""};
    }

  private:
    [[nodiscard]] CommStatus step() {
        const StepEnd end = worker_.run_step(Step{done_}, votes());
        if (end.status == CommStatus::ok || end.committed) {
            observer_.on_step(end.result);
            ++done_;
            reached_.push_back(now());
            save_heard_ = false;
            votes_ = end.votes;
            stopped_ = (votes_ & vote::go_on) == 0 && done_ < config_.steps;
        }
        return end.status;
    }

    /// A step, or what is due after one or between two, before it began.
    struct Attempted {
        Nanoseconds began;
        std::int32_t done;
        bool trains = true;  // what has to be done again if it breaks off
    };

    [[nodiscard]] Nanoseconds now() { return worker_.messenger().world().clock().now(); }

    /// What is due after the last step.
    [[nodiscard]] CommStatus tend() {
        const bool last = done_ >= config_.steps || stopped_;
        CommStatus status = last ? CommStatus::ok : save();
        const bool evaluates = done_ >= config_.steps || is_due(config_.evaluate_interval, done_);
        if (status == CommStatus::ok && evaluates && !stopped_) status = evaluate();
        if (status == CommStatus::ok) tended_ = done_;
        return status;
    }

    [[nodiscard]] CommStatus evaluate() {
        if (!worker_.plan().evaluation) return CommStatus::ok;
        const auto [status, loss] = worker_.evaluate();
        if (status == CommStatus::ok) observer_.on_evaluation(done_, loss);
        return status;
    }

    [[nodiscard]] CommStatus save() const {
        if (config_.saver == nullptr) return CommStatus::ok;
        const auto due = is_due(config_.save_interval, done_) ? Saver::Due::yes : Saver::Due::no;
        // A new shape waits until no save is under way.
        const auto begin = may_replan() ? Saver::Begin::later : Saver::Begin::now;
        return config_.saver->between_steps(done_, votes_, due, begin);
    }

    /// Of the run. What is not finite is not saved.
    [[nodiscard]] CommStatus end() {
        worker_.reach(Phase::end);
        CommStatus status = worker_.expect_finite_parameters();
        if (status == CommStatus::ok && config_.saver != nullptr) {
            status = config_.saver->finish(done_);
        }
        return status == CommStatus::ok ? config_.part() : status;
    }

    [[nodiscard]] CommStatus go_on_after(CommStatus status, const Attempted& attempted) {
        if (config_.repair == nullptr) return status;
        const Nanoseconds noticed = now();
        const bool committed = done_ > attempted.done;
        RepairEnd repaired = repair(worker_, *config_.repair, status, notes().numbers());
        RepairRecord& record = repaired.record;
        parked_ = record.rung == recover::Rung::park ? record.reason : "";
        if (repaired.status != CommStatus::ok) return status;
        if (!committed && attempted.trains) record.again = noticed - attempted.began;
        if (record.lanes_kept > 0) {
            const std::int32_t lanes = worker_.plan().shape.lanes.lanes;
            record.again = record.again * (lanes - record.lanes_kept) / lanes;
        }
        record.steps_again = done_ - worker_.committed_steps();
        if (record.steps_again > 0) record.again = noticed - undo_steps();
        go_on_with(repaired);
        replan_from_.reset();
        if (record.rung == recover::Rung::redo) replan_from_ = done_ + 1;
        return CommStatus::ok;
    }

    /// The step that kept its lanes has been done, in what was left of the old shape.
    [[nodiscard]] CommStatus replan() {
        replan_from_.reset();
        const RepairEnd end = engine::replan(worker_, *config_.repair, config_.steps - done_);
        if (end.status != CommStatus::ok) return end.status;
        if (end.record.attempts > 0) {
            if (config_.saver != nullptr) config_.saver->take_new_assignment();
            observer_.on_repair(end.record);
        }
        return save();  // what waited for this
    }

    [[nodiscard]] CommStatus renew() {
        const Nanoseconds began = now();
        const CommStatus status = worker_.renew();
        if (status == CommStatus::ok) observer_.on_renewal(done_, {began, now()});
        return status;
    }

    [[nodiscard]] Notes notes() const {
        Notes notes{.tended = tended_, .save_heard = save_heard_};
        if (config_.saver != nullptr) notes.saver = config_.saver->notes();
        return notes;
    }

    void go_on_with(const RepairEnd& repaired) {
        save_heard_ = false;  // the saver knows
        const Notes all = Notes::of_all(repaired.reports);
        done_ = worker_.committed_steps();
        // After an older state was loaded, what was due before it has been done.
        tended_ = std::min(done_, all.tended);
        if (repaired.record.rung == recover::Rung::state_file) tended_ = done_;
        if (config_.saver != nullptr) config_.saver->begin_epoch(all.saver);
        votes_ &= ~vote::idle;  // what was said of saves then is no longer so
        votes_ &= ~vote::calm;
        calm_since_ = now();
        observer_.on_repair(repaired.record);
    }

    [[nodiscard]] bool may_replan() const { return replan_from_ && *replan_from_ <= done_; }
    [[nodiscard]] bool may_renew() {
        return config_.repair != nullptr && (votes_ & vote::calm) != 0 &&
               worker_.messenger().world().runs_short();
    }
    [[nodiscard]] bool saver_is_idle() const {
        return config_.saver == nullptr || config_.saver->is_idle();
    }

    /// Back to what the worker has; returns when that was reached, or the run began.
    [[nodiscard]] Nanoseconds undo_steps() {
        const std::int32_t since = worker_.committed_steps() - config_.first_step;
        reached_.resize(static_cast<std::size_t>(std::max(since, 0)) + 1);
        return reached_.back();
    }

    [[nodiscard]] Votes votes() {
        Votes votes = vote::all;
        if (config_.stop_asked()) votes &= ~vote::go_on;
        save_heard_ = config_.save_asked() || save_heard_;
        if (save_heard_) votes &= ~vote::no_save;
        if (config_.saver != nullptr) votes &= config_.saver->votes();
        if (now() - calm_since_ < config_.calm) votes &= ~vote::calm;
        return votes;
    }

    Worker& worker_;
    const TrainLoopConfig& config_;
    TrainObserver& observer_;
    std::int32_t done_;                        // steps
    std::int32_t tended_;                      // after so many steps everything due was done
    Votes votes_ = vote::all;                  // of all, in the last step's agreement
    bool stopped_ = false;                     // by somebody's wish, before the last step
    bool save_heard_ = false;                  // a wish that no committed step has told the others
    Nanoseconds calm_since_;                   // the last repair
    std::vector<Nanoseconds> reached_;         // when steps were done, from the first one on
    std::optional<std::int32_t> replan_from_;  // after so many steps a new shape may pay
    std::string parked_;                       // why nothing can be made of those who are left
};

}  // namespace

TrainEnd train(Worker& worker, const TrainLoopConfig& config, TrainObserver& observer) {
    const TrainEnd end = Loop{worker, config, observer}.run();
    if (end.status != CommStatus::ok) (void)worker.abandon();
    return end;
}

}  // namespace rhizome::engine
