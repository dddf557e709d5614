#include "schedule/dry_run.hpp"

#include <algorithm>
#include <map>
#include <set>
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
            if (const auto pipeline = schedule.shape.pipeline_of(schedule.shape.workers[w])) {
                workers_[w].pipeline = pipeline->index();
            }
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
        std::size_t next = 0;                   // instruction
        double time_s = 0;                      // its last computation, commit or update ended
        std::optional<Place> last;              // that instruction
        std::size_t pipeline = 0;               // only asked of workers that compute
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
        if (is_send(each.kind)) return send(w, each);
        if (!is_wire(each.kind)) worker.receives.push_back(worker.next);
        stand(w, {worker.time_s, worker.time_s}, worker.last);
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
        const std::size_t pipeline = worker.pipeline;
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

    [[nodiscard]] LayerRange layers_of(std::size_t w, StageId stage) const {
        return schedule_.shape.pipelines[workers_[w].pipeline].stages[stage.index()].layers;
    }

    static WorkerId peer_of(const Instruction& each) {
        ENSURE(each.peer.has_value());
        return *each.peer;
    }

    [[nodiscard]] std::int64_t bytes_of(std::size_t w, const Instruction& each) {
        const WorkerId self = schedule_.shape.workers[w];
        if (is_wire(each.kind)) {
            const LayerRange layers = layers_of(w, each.stage);
            const std::int32_t before_cut =
                each.kind == Kind::send_activation ? layers.last - 1 : layers.first - 1;
            return costs_.layers[static_cast<std::size_t>(before_cut)].wire_bytes;
        }
        if (!exchange_) return 0;
        constexpr std::int64_t element_bytes = 4;
        if (each.kind == Kind::send_sum) {
            const LayerRange layers = layers_of(w, each.stage);
            auto owners = owners_of_.find(layers);
            if (owners == owners_of_.end()) {
                owners = owners_of_.emplace(layers, exchange_->owners_of(layers)).first;
            }
            const auto found = owners->second.find(peer_of(each));
            return found == owners->second.end() ? 0 : element_bytes * found->second;
        }
        if (each.kind == Kind::send_parameters) {
            const auto found = exchange_->parameters().find({self, peer_of(each)});
            return found == exchange_->parameters().end() ? 0 : element_bytes * found->second;
        }
        return 8;  // a part
    }

    /// False if it cannot leave yet: parts of the norm are made of the sums received before.
    bool send(std::size_t w, const Instruction& each) {
        Worker& worker = workers_[w];
        Ready ready{worker.time_s, {}};
        std::optional<Place> why = worker.last;
        const auto wait_for = [&](const Ready& cause) {
            if (cause.time_s <= ready.time_s) return;
            ready.time_s = cause.time_s;
            why = cause.maker;
        };
        if (each.kind == Kind::send_parts) {
            for (const std::size_t place : worker.receives) {
                if (schedule_.programs[w][place].kind != Kind::receive_sum) continue;
                const auto arrival = arrival_of(w, place);
                if (!arrival) return false;
                wait_for(*arrival);
            }
        }
        const std::size_t peer = schedule_.shape.place_of(peer_of(each));
        MaybeReady& link_free = link_free_[w * workers_.size() + peer];
        if (link_free) wait_for(*link_free);
        const double end = ready.time_s + costs_.transfer_s(bytes_of(w, each));
        const Ready arrived{end, {w, worker.next}};
        link_free = arrived;
        if (is_wire(each.kind)) {
            const Instruction receive = counterpart(each, schedule_.shape.workers[w]);
            auto& arrivals = each.kind == Kind::send_activation ? activation_ : gradient_;
            arrivals[grid_.at(worker.pipeline, receive.stage.index(), each.microbatch)] = arrived;
        } else {
            end_arrivals_.insert_or_assign(key_of(each, w, peer), arrived);
        }
        stand(w, {ready.time_s, end}, why);
        return true;
    }

    /// Of the message that a posted receive is for.
    [[nodiscard]] MaybeReady arrival_of(std::size_t w, std::size_t place) const {
        const Instruction& receive = schedule_.programs[w][place];
        const Instruction sent = counterpart(receive, schedule_.shape.workers[w]);
        const auto found =
            end_arrivals_.find(key_of(sent, schedule_.shape.place_of(peer_of(receive)), w));
        return found == end_arrivals_.end() ? std::nullopt : MaybeReady{found->second};
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
            const auto arrival = arrival_of(w, place);
            if (!arrival) {
                worker.missing = true;
                return false;
            }
            Span& span = run_.workers[w].spans[place];
            span.end_s = std::max(span.start_s, arrival->time_s);
            if (!last || last->time_s < arrival->time_s) last = arrival;
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
            if (worker.time_s > last_to_commit_.time_s) {
                last_to_commit_ = {worker.time_s, worker.last.value_or(Place{w, 0})};
            }
            ++commits_reached_;
        }
        if (commits_reached_ < commits_wanted_) return false;
        const double end = last_to_commit_.time_s + costs_.agreement_s;
        const Place here{w, worker.next};
        const bool waited = last_to_commit_.time_s > worker.time_s;
        stand(w, {worker.time_s, end}, waited ? std::optional{last_to_commit_.maker} : worker.last);
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

    /// What each (stage, microbatch) holds: its input wire from forward on, all inner wires and
    /// saved tensors from forward or, where it is repeated, from the repetition on, deferred
    /// tensors from the input part on; all until its weight part.
    void count_activations(std::size_t w) {
        WorkerRun& run = run_.workers[w];
        const auto& program = schedule_.programs[w];
        std::set<std::pair<StageId, Microbatch>> repeated;
        for (const Instruction& each : program) {
            if (each.kind == Kind::recompute) repeated.emplace(each.stage, each.microbatch);
        }
        std::map<std::pair<StageId, Microbatch>, std::int64_t> held;
        std::int64_t bytes = 0;
        for (const Instruction& each : program) {
            if (!is_compute(each.kind)) continue;
            const std::pair key{each.stage, each.microbatch};
            const LayerRange layers = layers_of(w, each.stage);
            std::int64_t more = 0;
            if (each.kind == Kind::forward) {
                more += layers.first > 0 ? cost_of(layers.first - 1).wire_bytes : 0;
            }
            const bool makes_saved = each.kind == Kind::recompute ||
                                     (each.kind == Kind::forward && !repeated.contains(key));
            for (std::int32_t i = layers.first; i < layers.last; ++i) {
                const LayerCost& layer = cost_of(i);
                if (makes_saved) more += layer.saved_bytes;
                if (makes_saved && i + 1 < layers.last) more += layer.wire_bytes;
                if (each.kind == Kind::backward || each.kind == Kind::backward_input) {
                    more += layer.deferred_bytes;
                }
            }
            held[key] += more;
            bytes += more;
            run.peak_activations =
                std::max(run.peak_activations, static_cast<std::int64_t>(held.size()));
            run.peak_bytes = std::max(run.peak_bytes, bytes);
            if (each.kind == Kind::backward || each.kind == Kind::backward_weight) {
                bytes -= held[key];
                held.erase(key);
            }
        }
    }

    [[nodiscard]] const LayerCost& cost_of(std::int32_t layer) const {
        return costs_.layers[static_cast<std::size_t>(layer)];
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
    std::vector<MaybeReady> link_free_;  // by sender * workers + receiver: its last message
    std::map<LayerRange, std::map<WorkerId, std::int64_t>> owners_of_;  // asked for before
    std::size_t commits_wanted_ = 0;
    std::size_t commits_reached_ = 0;
    Ready last_to_commit_{0, {}};
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
