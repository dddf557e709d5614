#include "schedule/dry_run.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "schedule/exchange.hpp"
#include "schedule/grid.hpp"

namespace rhizome::schedule {
namespace {

enum class Wires : std::uint8_t {
    sent,    // by instructions
    implied  // there as soon as the neighbour has computed them
};

/// When something became available, and the instruction that made it so.
struct Ready {
    double time_s;
    Place maker;
};
using MaybeReady = std::optional<Ready>;

/// Sums, parts and parameters: kind of the send, sender, receiver, stage, lanes.
using EndKey = std::tuple<Kind, std::size_t, std::size_t, std::int32_t, std::int32_t>;

class Clockwork {
  public:
    Clockwork(const Schedule& schedule, const Costs& costs, const Sizes& sizes, Wires wires)
        : schedule_{schedule},
          costs_{costs},
          wires_{wires},
          grid_{schedule.shape},
          forward_(grid_.size()),
          backward_(grid_.size()),
          activation_(grid_.size()),
          gradient_(grid_.size()),
          workers_(schedule.programs.size()),
          link_free_(workers_.size() * workers_.size()) {
        if (sizes.table != nullptr && sizes.owners != nullptr) {
            exchange_.emplace(schedule.shape, *sizes.table, *sizes.owners);
        }
        run_.workers.resize(workers_.size());
        for (std::size_t w = 0; w < workers_.size(); ++w) {
            run_.workers[w].spans.reserve(schedule.programs[w].size());
            workers_[w].pipeline = schedule.shape.pipeline_of(schedule.shape.workers[w]);
            workers_[w].why.reserve(schedule.programs[w].size());
            for (const Instruction& each : schedule.programs[w]) {
                if (each.kind == Kind::commit) ++commits_wanted_;
            }
        }
    }

    std::optional<DryRun> run() {
        bool moved = true;
        while (moved) {
            moved = false;
            for (std::size_t w = 0; w < workers_.size(); ++w) {
                while (advance(w)) moved = true;
            }
        }
        for (std::size_t w = 0; w < workers_.size(); ++w) {
            if (workers_[w].next < schedule_.programs[w].size()) return std::nullopt;
            settle_receives(w);
            if (workers_[w].missing) return std::nullopt;
        }
        finish();
        return std::move(run_);
    }

  private:
    struct Worker {
        std::size_t next = 0;       // instruction
        double time_s = 0;          // its last computation, commit or update ended
        std::optional<Place> last;  // that instruction
        std::optional<PipelineId> pipeline;
        std::vector<std::size_t> receives;      // posted and not yet waited for, but for wires
        std::vector<std::optional<Place>> why;  // by instruction: what decided its start
        bool in_commit = false;
        bool missing = false;  // a message that never came
    };

    /// Does the next instruction of a worker if it can be done now.
    bool advance(std::size_t w) {
        Worker& worker = workers_[w];
        if (worker.next == schedule_.programs[w].size()) return false;
        const Instruction& each = schedule_.programs[w][worker.next];
        if (is_compute(each.kind)) return compute(w, each);
        if (each.kind == Kind::commit) return commit(w);
        if (each.kind == Kind::update) {
            const double elements =
                exchange_
                    ? static_cast<double>(exchange_->elements_owned(schedule_.shape.workers[w]))
                    : 0.0;
            occupy(w, worker.time_s, worker.last, elements * costs_.update_s_per_element);
            return true;
        }
        if (is_send(each.kind)) {
            send(w, each);
        } else {
            if (!is_wire(each.kind)) worker.receives.push_back(worker.next);
            stand(w, {worker.time_s, worker.time_s}, worker.last);
        }
        return true;
    }

    /// Writes down an instruction that holds nobody up.
    void stand(std::size_t w, Span span, std::optional<Place> why) {
        run_.workers[w].spans.push_back(span);
        workers_[w].why.push_back(why);
        ++workers_[w].next;
    }

    /// Writes down an instruction that keeps the worker busy.
    void occupy(std::size_t w, double start_s, std::optional<Place> why, double seconds) {
        Worker& worker = workers_[w];
        const Place here{w, worker.next};
        stand(w, {start_s, start_s + seconds}, why);
        worker.time_s = start_s + seconds;
        worker.last = here;
    }

    /// What a computation needs from a neighbouring stage, unless it is not there yet; at time 0
    /// where it needs nothing.
    [[nodiscard]] bool need(const Instruction& each, std::size_t pipeline,
                            MaybeReady& ready) const {
        const auto& stages = schedule_.shape.pipelines[pipeline].stages;
        const std::size_t s = each.stage.index();
        const std::size_t here = grid_.at(pipeline, s, each.microbatch);
        const auto of_neighbour = [&](std::size_t neighbour, const std::vector<MaybeReady>& local,
                                      const std::vector<MaybeReady>& received) {
            const bool at_once =
                wires_ == Wires::implied || stages[neighbour].worker == stages[s].worker;
            ready =
                at_once ? local[grid_.at(pipeline, neighbour, each.microbatch)] : received[here];
            return ready.has_value();
        };
        switch (each.kind) {
            case Kind::forward:
                return s == 0 || of_neighbour(s - 1, forward_, activation_);
            case Kind::backward:
            case Kind::backward_input:
                if (!forward_[here]) return false;
                return s + 1 == stages.size() || of_neighbour(s + 1, backward_, gradient_);
            case Kind::backward_weight:
                return backward_[here].has_value();
            default:
                return forward_[here].has_value();
        }
    }

    bool compute(std::size_t w, const Instruction& each) {
        Worker& worker = workers_[w];
        const std::size_t pipeline = worker.pipeline->index();
        MaybeReady ready;
        if (!need(each, pipeline, ready)) return false;
        const bool waits = ready && ready->time_s > worker.time_s;
        const double start = waits ? ready->time_s : worker.time_s;
        const Place here{w, worker.next};
        const LayerRange layers =
            schedule_.shape.pipelines[pipeline].stages[each.stage.index()].layers;
        const double seconds = costs_.compute_s(each.kind, layers);
        occupy(w, start, waits ? std::optional{ready->maker} : worker.last, seconds);
        run_.workers[w].busy_s += seconds;
        const std::size_t at = grid_.at(pipeline, each.stage.index(), each.microbatch);
        if (each.kind == Kind::forward) forward_[at] = Ready{start + seconds, here};
        if (each.kind == Kind::backward || each.kind == Kind::backward_input) {
            backward_[at] = Ready{start + seconds, here};
        }
        return true;
    }

    [[nodiscard]] std::int64_t bytes_of(std::size_t w, const Instruction& each) const {
        const WorkerId self = schedule_.shape.workers[w];
        if (is_wire(each.kind)) {
            const auto& stages = schedule_.shape.pipelines[workers_[w].pipeline->index()].stages;
            const LayerRange layers = stages[each.stage.index()].layers;
            const std::int32_t before_cut =
                each.kind == Kind::send_activation ? layers.last - 1 : layers.first - 1;
            return costs_.layers[static_cast<std::size_t>(before_cut)].wire_bytes;
        }
        if (!exchange_) return 0;
        constexpr std::int64_t element_bytes = 4;
        if (each.kind == Kind::send_sum) {
            const auto& stages = schedule_.shape.pipelines[workers_[w].pipeline->index()].stages;
            const auto owners = exchange_->owners_of(stages[each.stage.index()].layers);
            const auto found = owners.find(*each.peer);
            return found == owners.end() ? 0 : element_bytes * found->second;
        }
        if (each.kind == Kind::send_parameters) {
            const auto found = exchange_->parameters().find({self, *each.peer});
            return found == exchange_->parameters().end() ? 0 : element_bytes * found->second;
        }
        return 8;  // a part
    }

    void send(std::size_t w, const Instruction& each) {
        Worker& worker = workers_[w];
        const std::size_t peer = schedule_.shape.place_of(*each.peer);
        double& link_free = link_free_[w * workers_.size() + peer];
        const double start = std::max(worker.time_s, link_free);
        const double end = start + costs_.transfer_s(bytes_of(w, each));
        link_free = end;
        const Ready arrived{end, {w, worker.next}};
        if (is_wire(each.kind)) {
            const Instruction receive = counterpart(each, schedule_.shape.workers[w]);
            auto& arrivals = each.kind == Kind::send_activation ? activation_ : gradient_;
            arrivals[grid_.at(worker.pipeline->index(), receive.stage.index(), each.microbatch)] =
                arrived;
        } else {
            end_arrivals_.insert_or_assign(key_of(each, w, peer), arrived);
        }
        stand(w, {start, end}, worker.last);
    }

    [[nodiscard]] static EndKey key_of(const Instruction& send, std::size_t sender,
                                       std::size_t receiver) {
        return {send.kind, sender, receiver, send.stage.value(), send.lanes.first};
    }

    /// Waits for the messages of the posted receives that have arrived or will: raises the worker's
    /// time to the last of them. False if one has not been sent yet.
    bool settle_receives(std::size_t w) {
        Worker& worker = workers_[w];
        std::optional<Ready> last;
        for (const std::size_t place : worker.receives) {
            const Instruction& receive = schedule_.programs[w][place];
            const Instruction sent = counterpart(receive, schedule_.shape.workers[w]);
            const auto found =
                end_arrivals_.find(key_of(sent, schedule_.shape.place_of(*receive.peer), w));
            if (found == end_arrivals_.end()) {
                worker.missing = true;
                return false;
            }
            Span& span = run_.workers[w].spans[place];
            span.end_s = std::max(span.start_s, found->second.time_s);
            if (!last || last->time_s < found->second.time_s) last = found->second;
        }
        worker.missing = false;
        worker.receives.clear();
        if (last && last->time_s > worker.time_s) {
            worker.time_s = last->time_s;
            worker.last = last->maker;
        }
        return true;
    }

    /// Everybody's commit ends when the last has come to it and the agreement has gone round.
    bool commit(std::size_t w) {
        Worker& worker = workers_[w];
        if (!worker.in_commit) {
            if (!settle_receives(w)) return false;
            worker.in_commit = true;
            if (!last_to_commit_ || worker.time_s > last_to_commit_->time_s) {
                last_to_commit_ = Ready{worker.time_s, worker.last.value_or(Place{w, 0})};
            }
            ++commits_reached_;
        }
        if (commits_reached_ < commits_wanted_) return false;
        const double end = last_to_commit_->time_s + costs_.agreement_s;
        const Place here{w, worker.next};
        const bool waited = last_to_commit_->time_s > worker.time_s;
        stand(w, {worker.time_s, end},
              waited ? std::optional{last_to_commit_->maker} : worker.last);
        worker.time_s = end;
        worker.last = here;
        return true;
    }

    void finish() {
        double busy = 0;
        std::size_t computing = 0;
        std::optional<Place> last;
        for (std::size_t w = 0; w < workers_.size(); ++w) {
            WorkerRun& worker = run_.workers[w];
            busy += worker.busy_s;
            if (worker.busy_s > 0) ++computing;
            if (workers_[w].time_s > run_.makespan_s || !last) {
                run_.makespan_s = std::max(run_.makespan_s, workers_[w].time_s);
                if (workers_[w].last) last = workers_[w].last;
            }
            count_activations(w);
        }
        if (computing > 0 && run_.makespan_s > 0) {
            run_.bubble_share = 1 - busy / (static_cast<double>(computing) * run_.makespan_s);
        }
        for (; last; last = workers_[last->worker].why[last->place]) {
            run_.critical_path.push_back(*last);
        }
        std::reverse(run_.critical_path.begin(), run_.critical_path.end());
    }

    void count_activations(std::size_t w) {
        WorkerRun& run = run_.workers[w];
        const auto& program = schedule_.programs[w];
        const bool recomputes =
            std::any_of(program.begin(), program.end(),
                        [](const Instruction& each) { return each.kind == Kind::recompute; });
        std::int64_t alive = 0;
        std::int64_t bytes = 0;
        for (const Instruction& each : program) {
            if (!is_compute(each.kind)) continue;
            std::int64_t wires = 0;
            std::int64_t saved = 0;
            std::int64_t deferred = 0;
            const LayerRange layers = schedule_.shape.pipelines[workers_[w].pipeline->index()]
                                          .stages[each.stage.index()]
                                          .layers;
            for (std::int32_t i = layers.first; i < layers.last; ++i) {
                const LayerCost& layer = costs_.layers[static_cast<std::size_t>(i)];
                wires += layer.wire_bytes;
                saved += layer.saved_bytes;
                deferred += layer.deferred_bytes;
            }
            const bool starts = each.kind == Kind::forward;
            const bool ends = each.kind == Kind::backward || each.kind == Kind::backward_weight;
            if (starts) ++alive;
            if (starts) bytes += wires + (recomputes ? 0 : saved);
            if (each.kind == Kind::recompute) bytes += saved;
            if (each.kind == Kind::backward || each.kind == Kind::backward_input) bytes += deferred;
            run.peak_activations = std::max(run.peak_activations, alive);
            run.peak_bytes = std::max(run.peak_bytes, bytes);
            if (ends) --alive;
            if (ends) bytes -= wires + saved + deferred;
        }
    }

    const Schedule& schedule_;
    const Costs& costs_;
    Wires wires_;
    Grid grid_;
    std::optional<Exchange> exchange_;
    std::vector<MaybeReady> forward_;     // computed
    std::vector<MaybeReady> backward_;    // input part computed
    std::vector<MaybeReady> activation_;  // received, by receiving stage
    std::vector<MaybeReady> gradient_;
    std::map<EndKey, Ready> end_arrivals_;
    std::vector<Worker> workers_;
    std::vector<double> link_free_;  // by sender * workers + receiver
    std::size_t commits_wanted_ = 0;
    std::size_t commits_reached_ = 0;
    MaybeReady last_to_commit_;
    DryRun run_;
};

}  // namespace

std::optional<DryRun> dry_run(const Schedule& schedule, const Costs& costs, const Sizes& sizes) {
    return Clockwork{schedule, costs, sizes, Wires::sent}.run();
}

std::optional<DryRun> dry_run_computation(const Schedule& schedule, const Costs& costs) {
    return Clockwork{schedule, costs, {}, Wires::implied}.run();
}

}  // namespace rhizome::schedule
