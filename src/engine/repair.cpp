#include "engine/repair.hpp"

#include <algorithm>

#include "engine/moves.hpp"

namespace rhizome::engine {
namespace {

constexpr world::Tag report_tag{world::World::tag_max - 1};

/// Everybody's report to everybody.
class ReportExchange {
  public:
    ReportExchange(Worker& worker, const std::vector<std::int32_t>& notes)
        : messenger_{worker.messenger()}, mine_{worker.report()} {
        mine_.notes = notes;
        size_ = {mine_.owns.size(), mine_.holds.size(), mine_.lanes.size(), notes.size()};
        outgoing_ = recover::to_words(mine_);
        for (const WorkerId member : messenger_.world().members()) {
            if (member == mine_.worker) continue;
            incoming_.emplace_back(member, std::vector<std::uint32_t>(outgoing_.size()));
        }
        for (auto& [from, words] : incoming_) {
            const device::Tensor to = words_on_host(words);
            receipts_.push_back(messenger_.receive(from, report_tag, std::span{&to, 1}));
        }
        const device::Tensor report = words_on_host(outgoing_);
        const auto ready = worker.stream().record();
        for (const auto& [to, words] : incoming_) {
            messenger_.send(to, report_tag, std::span{&report, 1}, ready, nullptr);
        }
    }

    [[nodiscard]] CommStatus wait(recover::Survey& survey) {
        for (const Messenger::Receipt receipt : receipts_) {
            const CommStatus status = messenger_.wait(receipt);
            if (status != CommStatus::ok) return status;
        }
        survey.reports = {mine_};
        for (const auto& [from, words] : incoming_) {
            survey.reports.push_back(recover::parse_report(from, size_, words));
        }
        std::sort(
            survey.reports.begin(), survey.reports.end(),
            [](const recover::Report& a, const recover::Report& b) { return a.worker < b.worker; });
        return messenger_.drain();
    }

  private:
    Messenger& messenger_;
    recover::Report mine_;
    recover::ReportSize size_{};
    std::vector<std::uint32_t> outgoing_;
    std::vector<std::pair<WorkerId, std::vector<std::uint32_t>>> incoming_;
    std::vector<Messenger::Receipt> receipts_;
};

class Repair {
  public:
    Repair(Worker& worker, const RepairConfig& config, std::vector<std::int32_t> notes)
        : worker_{worker}, config_{config}, notes_{std::move(notes)} {}

    [[nodiscard]] RepairEnd run(CommStatus noticed) {
        const std::vector<WorkerId> before = world().members();
        record_.noticed = noticed;
        record_.began = now();
        const Nanoseconds deadline = now() + config_.at_most;
        CommStatus status = noticed;
        while (status != CommStatus::ok) {
            ++record_.attempts;
            if (worker_.abandon() != CommStatus::ok || now() >= deadline) return lost();
            worker_.reach(Phase::open);
            const CommStatus opened = worker_.open_epoch(deadline);
            if (opened == CommStatus::revoked) return no_epoch_left();
            if (opened != CommStatus::ok) return lost();
            record_.opened = now();
            record_.epoch = world().epoch();
            if (!config_.is_allowed(world())) return lost();
            status = attempt();
            if (record_.rung == recover::Rung::park) return lost();
        }
        std::set_difference(before.begin(), before.end(), world().members().begin(),
                            world().members().end(), std::back_inserter(record_.lost));
        record_.ended = now();
        return {CommStatus::ok, record_, std::move(survey_.reports)};
    }

    [[nodiscard]] RepairEnd between_steps(std::int32_t steps) {
        record_.began = now();
        record_.opened = now();
        record_.epoch = world().epoch();
        CommStatus status = hear_all();
        if (status != CommStatus::ok) return {status, record_, {}};
        const auto decision =
            recover::decide_between_steps(survey_, config_.facts, in_use(), steps);
        if (decision) {
            ++record_.attempts;
            status = carry_out(*decision);
        }
        record_.ended = now();
        return {status, record_, std::move(survey_.reports)};
    }

  private:
    [[nodiscard]] world::World& world() { return worker_.messenger().world(); }
    [[nodiscard]] Nanoseconds now() { return world().clock().now(); }
    [[nodiscard]] RepairEnd lost() {
        record_.ended = now();
        return {CommStatus::timed_out, record_, {}};
    }

    [[nodiscard]] RepairEnd no_epoch_left() {
        record_.rung = recover::Rung::park;
        record_.reason = "more losses came in a row than it was ready for";
        return lost();
    }

    [[nodiscard]] CommStatus attempt() {
        const CommStatus status = hear_all();
        return status == CommStatus::ok
                   ? carry_out(recover::decide(survey_, config_.facts, in_use()))
                   : status;
    }

    [[nodiscard]] CommStatus hear_all() {
        worker_.reach(Phase::report);
        ReportExchange reports{worker_, notes_};
        if (const CommStatus status = reports.wait(survey_); status != CommStatus::ok) {
            return give_up(status);
        }
        worker_.reach(Phase::decide);
        return CommStatus::ok;
    }

    [[nodiscard]] recover::InUse in_use() const {
        return {.shape = worker_.plan().shape, .style = worker_.plan().style};
    }

    [[nodiscard]] CommStatus carry_out(const recover::Decision& decision) {
        record_.rung = decision.rung;
        record_.reason = decision.reason;
        record_.lanes_kept = static_cast<std::int32_t>(decision.kept.size());
        record_.decided = now();
        if (decision.rung == recover::Rung::park) return CommStatus::ok;
        auto next = worker_.make_next_assignment(
            make_run_plan({.shape = decision.shape,
                           .owners = decision.owners,
                           .style = decision.style,
                           .recompute = config_.recompute,
                           .evaluation_microbatches = config_.evaluation_microbatches,
                           .kept = decision.kept},
                          config_.facts.table, config_.costs));
        return decision.rung == recover::Rung::state_file ? load(std::move(next))
                                                          : move(decision, std::move(next));
    }

    [[nodiscard]] CommStatus move(const recover::Decision& decision,
                                  std::unique_ptr<Assignment> next) {
        worker_.reach(Phase::move);
        MoveExchange moves{worker_, decision.moves, next->plan.owners};
        const CommStatus status = moves.wait();
        if (status != CommStatus::ok) return give_up(status);
        moves.fill(*next);
        record_.bytes_moved =
            recover::bytes_of(decision.moves, config_.facts.table, decision.owners);
        record_.steps = decision.steps;
        worker_.reach(Phase::agree);
        const Voted voted = worker_.agree(vote::all);
        if (voted.status != CommStatus::ok) return voted.status;
        worker_.reach(Phase::adopt);
        worker_.adopt(std::move(next), Adopt::filled);
        return CommStatus::ok;
    }

    /// Back to a state that somebody saved. Here nobody keeps what it had: of some chunk nobody has
    /// anything.
    [[nodiscard]] CommStatus load(std::unique_ptr<Assignment> next) {
        worker_.reach(Phase::load);
        worker_.adopt(std::move(next), Adopt::empty);
        const CommStatus status = config_.load(worker_);
        const Voted voted = status == CommStatus::ok ? worker_.agree(vote::all) : Voted{status, 0};
        record_.bytes_moved = 0;
        record_.steps = worker_.committed_steps();
        if (voted.status != CommStatus::ok) worker_.forget_state();
        return voted.status;
    }

    /// While what was sent and received is still there.
    [[nodiscard]] CommStatus give_up(CommStatus status) {
        (void)worker_.abandon();
        return status;
    }

    Worker& worker_;
    const RepairConfig& config_;
    const std::vector<std::int32_t> notes_;
    recover::Survey survey_;
    RepairRecord record_;
};

}  // namespace

RepairEnd replan(Worker& worker, const RepairConfig& config, std::int32_t steps) {
    return Repair{worker, config, {}}.between_steps(steps);
}

RepairEnd repair(Worker& worker, const RepairConfig& config, CommStatus noticed,
                 const std::vector<std::int32_t>& notes) {
    return Repair{worker, config, notes}.run(noticed);
}

}  // namespace rhizome::engine
