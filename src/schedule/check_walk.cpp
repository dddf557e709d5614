#include <algorithm>

#include "schedule/check_private.hpp"

namespace rhizome::schedule {
namespace {

class Walk {
  public:
    Walk(const Schedule& schedule, const Demand& demand, std::size_t worker, Ledger& ledger)
        : schedule_{schedule},
          shape_{schedule.shape},
          demand_{demand},
          training_{demand.purpose == Purpose::training},
          worker_{worker},
          me_{demand.workers[worker]},
          ledger_{ledger} {}

    [[nodiscard]] Fault run() {
        const auto& program = schedule_.programs[worker_];
        const std::string name = name_of(worker_);
        for (std::size_t place = 0; place < program.size(); ++place) {
            if (program[place].kind > Kind::receive_parameters) {
                return name + ", instruction " + std::to_string(place) + ": its kind is unknown";
            }
            number_ = ledger_.first_of[worker_] + place;
            if (auto reason = look(program[place])) {
                return where(schedule_, worker_, place) + ": " + *reason;
            }
        }
        if (training_ && !committed_) return name + " never commits";
        if (training_ && me_.owns && !updated_) return name + " never updates (it owns chunks)";
        if (!training_) {
            if (auto missing = find_missing(Scope::step)) return name + " ends without " + *missing;
        }
        return std::nullopt;
    }

  private:
    [[nodiscard]] Fault look(const Instruction& i) {
        if (auto reason = look_at_fields(i)) return reason;
        if (!training_ && !belongs_to_evaluation(i.kind)) return "an evaluation has none of these";
        if (is_compute(i.kind)) return compute(i);
        if (is_wire(i.kind)) return wire(i);
        switch (i.kind) {
            case Kind::send_sum:
                return send_sum(i);
            case Kind::receive_sum:
                return receive_sum(i);
            case Kind::send_parts:
                return send_parts();
            case Kind::receive_parts:
                return receive_parts();
            case Kind::commit:
                return commit();
            case Kind::update:
                return update();
            default:
                return parameters(i);
        }
    }

    [[nodiscard]] static bool belongs_to_evaluation(Kind kind) {
        return kind == Kind::forward || kind == Kind::send_activation ||
               kind == Kind::receive_activation || kind == Kind::send_parts ||
               kind == Kind::receive_parts;
    }

    /// Also finds the peer's place. What a kind does not use is 0, or its two sides would differ.
    [[nodiscard]] Fault look_at_fields(const Instruction& i) {
        const bool by_microbatch = is_compute(i.kind) || is_wire(i.kind);
        if ((!by_microbatch && i.microbatch != Microbatch{0}) ||
            (!by_microbatch && !is_sum(i.kind) && i.stage != StageId{0}) ||
            (!is_sum(i.kind) && i.lanes != LaneRange{0, 0})) {
            return "it has a stage, a microbatch or lanes, which its kind does not use";
        }
        if (!is_send(i.kind) && !is_receive(i.kind)) {
            if (i.peer) return "it has a peer, but nothing is sent";
            return std::nullopt;
        }
        if (!i.peer) return "it has no peer";
        if (!std::binary_search(shape_.workers.begin(), shape_.workers.end(), *i.peer)) {
            return "there is no worker " + std::to_string(i.peer->value());
        }
        peer_ = shape_.place_of(*i.peer);
        if (peer_ == worker_) return "its peer is the worker itself";
        ledger_.peers[number_] = peer_;
        return std::nullopt;
    }

    /// Is this a microbatch of one of this worker's stages? Sets pipeline_.
    [[nodiscard]] Fault look_at_stage(const Instruction& i) {
        if (auto reason = look_at_stage_of(i, worker_)) return reason;
        const std::int32_t first = pipeline_->first_microbatch;
        const std::int32_t last = pipeline_->last_microbatch;
        if (!is_sum(i.kind) && (i.microbatch.value() < first || last <= i.microbatch.value())) {
            return "its pipeline has microbatches " + std::to_string(first) + " to " +
                   std::to_string(last - 1);
        }
        if (!is_sum(i.kind) && schedule_.keeps(i.microbatch)) {
            return "its lane is kept (nothing is computed for it)";
        }
        return std::nullopt;
    }

    /// Does `computing` have that stage? Sets pipeline_.
    [[nodiscard]] Fault look_at_stage_of(const Instruction& i, std::size_t computing) {
        const auto& pipeline = demand_.workers[computing].pipeline;
        if (!pipeline) return name_of(computing) + " computes no stage";
        pipeline_ = &demand_.pipelines[*pipeline];
        const std::size_t stage = i.stage.index();
        if (stage >= pipeline_->stages.size() || pipeline_->stages[stage].worker != computing) {
            return name_of(computing) + " does not compute stage " +
                   std::to_string(i.stage.value());
        }
        return std::nullopt;
    }

    [[nodiscard]] std::string name_of(std::size_t worker) const {
        return "worker " + std::to_string(shape_.workers[worker].value());
    }

    [[nodiscard]] bool did(std::size_t stage, Microbatch microbatch, std::uint8_t what) const {
        return (ledger_.work[pipeline_->work_of(stage, microbatch)] & what) != 0;
    }

    [[nodiscard]] Instruction wire_of(Kind kind, std::size_t stage, Microbatch microbatch,
                                      std::size_t peer) const {
        return {.kind = kind,
                .stage = StageId{static_cast<std::int32_t>(stage)},
                .microbatch = microbatch,
                .peer = shape_.workers[peer]};
    }

    [[nodiscard]] Fault compute(const Instruction& i) {
        if (auto reason = look_at_stage(i)) return reason;
        const std::size_t stage = i.stage.index();
        std::uint8_t& work = ledger_.work[pipeline_->work_of(stage, i.microbatch)];
        if (i.kind == Kind::forward) {
            if ((work & forward_done) != 0) return "it is done a second time";
            if (auto reason = look_for_activation(stage, i.microbatch)) return reason;
            work |= forward_done;
            return std::nullopt;
        }
        if ((work & forward_done) == 0) {
            return "its forward has not been done (no " +
                   to_text({.kind = Kind::forward, .stage = i.stage, .microbatch = i.microbatch}) +
                   " before it)";
        }
        if (i.kind == Kind::recompute) {
            if ((work & input_done) != 0) return "it is too late (after its backward)";
            if ((work & recompute_done) != 0) return "it is done a second time";
            work |= recompute_done;
            return std::nullopt;
        }
        if (i.kind == Kind::backward || i.kind == Kind::backward_input) {
            if ((work & input_done) != 0) return "it is done a second time";
            if (auto reason = look_for_gradient(stage, i.microbatch)) return reason;
            work |= input_done;
        }
        if (i.kind == Kind::backward || i.kind == Kind::backward_weight) {
            if ((work & input_done) == 0) {
                return "its input part has not been done (no " +
                       to_text({.kind = Kind::backward_input,
                                .stage = i.stage,
                                .microbatch = i.microbatch}) +
                       " before it)";
            }
            if ((work & weight_done) != 0) return "it is done a second time";
            work |= weight_done;
            return add_weights(stage, i.microbatch);
        }
        return std::nullopt;
    }

    [[nodiscard]] Fault look_for_activation(std::size_t stage, Microbatch microbatch) const {
        if (stage == 0) return std::nullopt;
        const std::size_t before = pipeline_->stages[stage - 1].worker;
        if (before == worker_) {
            if (did(stage - 1, microbatch, forward_done)) return std::nullopt;
            return "its activation has not been made (no F" + std::to_string(stage - 1) + ":" +
                   std::to_string(microbatch.value()) + " before it)";
        }
        const std::size_t message = demand_.activation(pipeline_->work_of(stage, microbatch));
        if (ledger_.messages[message].received != nowhere) return std::nullopt;
        return "its activation has not come (no " +
               to_text(wire_of(Kind::receive_activation, stage, microbatch, before)) +
               " before it)";
    }

    [[nodiscard]] Fault look_for_gradient(std::size_t stage, Microbatch microbatch) const {
        if (stage + 1 == pipeline_->stages.size()) return std::nullopt;
        const std::size_t next = pipeline_->stages[stage + 1].worker;
        if (next == worker_) {
            if (did(stage + 1, microbatch, input_done)) return std::nullopt;
            const std::string of =
                std::to_string(stage + 1) + ":" + std::to_string(microbatch.value());
            return "its gradient has not been made (no B" + of + " or I" + of + " before it)";
        }
        const std::size_t message = demand_.gradient(pipeline_->work_of(stage + 1, microbatch));
        if (ledger_.messages[message].received != nowhere) return std::nullopt;
        return "its gradient has not come (no " +
               to_text(wire_of(Kind::receive_gradient, stage, microbatch, next)) + " before it)";
    }

    [[nodiscard]] Fault add_weights(std::size_t stage, Microbatch microbatch) {
        const Lane lane = shape_.lanes.lane_of(microbatch);
        const std::size_t number = pipeline_->stages[stage].first_lane +
                                   static_cast<std::size_t>(lane.value() - pipeline_->lanes.first);
        const std::int32_t next =
            shape_.lanes.first_of(lane).value() + ledger_.lane_sizes[number]++;
        if (microbatch.value() == next) return std::nullopt;
        return "its weight gradients come too early (those of microbatch " + std::to_string(next) +
               " are next in lane " + std::to_string(lane.value()) + ")";
    }

    [[nodiscard]] Fault wire(const Instruction& i) {
        if (auto reason = look_at_stage(i)) return reason;
        const std::size_t stage = i.stage.index();
        const bool is_activation =
            i.kind == Kind::send_activation || i.kind == Kind::receive_activation;
        const bool to_next = is_activation == is_send(i.kind);
        if (to_next ? stage + 1 == pipeline_->stages.size() : stage == 0) {
            return to_next ? "it is of the last stage" : "it is of the first stage";
        }
        const std::size_t other = to_next ? stage + 1 : stage - 1;
        const std::size_t neighbour = pipeline_->stages[other].worker;
        if (neighbour == worker_) {
            return "stage " + std::to_string(other) + " is on the same worker (nothing is sent)";
        }
        if (neighbour != peer_) {
            return "stage " + std::to_string(other) + " is on " + name_of(neighbour);
        }
        const std::size_t work = pipeline_->work_of(std::max(stage, other), i.microbatch);
        if (i.kind == Kind::send_activation && !did(stage, i.microbatch, forward_done)) {
            return "its activation has not been made (no F" + std::to_string(stage) + ":" +
                   std::to_string(i.microbatch.value()) + " before it)";
        }
        if (i.kind == Kind::send_gradient && !did(stage, i.microbatch, input_done)) {
            const std::string of =
                std::to_string(stage) + ":" + std::to_string(i.microbatch.value());
            return "its gradient has not been made (no B" + of + " or I" + of + " before it)";
        }
        return pass(i.kind, is_activation ? demand_.activation(work) : demand_.gradient(work));
    }

    /// Notes this end of a message.
    [[nodiscard]] Fault pass(Kind kind, std::size_t message) {
        Ends& ends = ledger_.messages[message];
        std::size_t& end = is_send(kind) ? ends.sent : ends.received;
        if (end != nowhere) return is_send(kind) ? "it is sent twice" : "it is received twice";
        end = number_;
        return std::nullopt;
    }

    /// The message with the sums of those lanes of a stage, or why there is none. Of pipeline_.
    [[nodiscard]] Fault pass_sum(const Instruction& i, std::size_t receiver) {
        const StageDemand& stage = pipeline_->stages[i.stage.index()];
        const auto& receivers = stage.receivers;
        const auto found = std::lower_bound(receivers.begin(), receivers.end(), receiver);
        if (found == receivers.end() || *found != receiver) {
            return name_of(receiver) + " owns no chunk of this stage";
        }
        const auto& subtrees = pipeline_->subtrees;
        const auto subtree = std::find(subtrees.begin(), subtrees.end(), i.lanes);
        if (subtree == subtrees.end()) return "these lanes are no complete subtree of its pipeline";
        const auto row = static_cast<std::size_t>(found - receivers.begin());
        const auto column = static_cast<std::size_t>(subtree - subtrees.begin());
        return pass(i.kind, stage.first_sum + row * subtrees.size() + column);
    }

    [[nodiscard]] Fault send_sum(const Instruction& i) {
        if (auto reason = look_at_stage(i)) return reason;
        if (auto reason = pass_sum(i, peer_)) return reason;
        const StageDemand& stage = pipeline_->stages[i.stage.index()];
        for (std::int32_t lane = i.lanes.first; lane < i.lanes.last; ++lane) {
            const auto number = static_cast<std::size_t>(lane - pipeline_->lanes.first);
            const std::int32_t size = ledger_.lane_sizes[stage.first_lane + number];
            if (size == shape_.lanes.length()) continue;
            return "its sum is not complete (microbatch " +
                   std::to_string(shape_.lanes.first_of(Lane{lane}).value() + size) +
                   " is not in it)";
        }
        return std::nullopt;
    }

    [[nodiscard]] Fault receive_sum(const Instruction& i) {
        if (auto reason = look_at_stage_of(i, peer_)) return reason;
        return pass_sum(i, worker_);
    }

    [[nodiscard]] Fault send_parts() {
        if (!me_.parts_row) return "this worker has no parts";
        if (!parts_complete_) {
            if (auto missing = find_missing(Scope::parts)) {
                return "its parts are not complete (no " + *missing + " before it)";
            }
            parts_complete_ = true;
        }
        return pass(Kind::send_parts, demand_.parts(*me_.parts_row, peer_));
    }

    [[nodiscard]] Fault receive_parts() {
        const auto& row = demand_.workers[peer_].parts_row;
        if (!row) {
            return name_of(peer_) + " has no parts";
        }
        return pass(Kind::receive_parts, demand_.parts(*row, worker_));
    }

    [[nodiscard]] Fault commit() {
        if (committed_) return "it is the second";
        if (auto missing = find_missing(Scope::step)) {
            return "the step is not complete (no " + *missing + " before it)";
        }
        committed_ = true;
        return std::nullopt;
    }

    [[nodiscard]] Fault update() {
        if (!me_.owns) return "this worker owns no chunk";
        if (updated_) return "it is the second";
        if (!committed_) return "it comes before the commit";
        updated_ = true;
        return std::nullopt;
    }

    [[nodiscard]] Fault parameters(const Instruction& i) {
        const bool sends = i.kind == Kind::send_parameters;
        const ParametersPath path =
            sends ? ParametersPath{worker_, peer_} : ParametersPath{peer_, worker_};
        const auto& paths = demand_.parameters;
        const auto found = std::lower_bound(paths.begin(), paths.end(), path);
        if (found == paths.end() || *found != path) {
            return "the receiver needs no parameters from the sender";
        }
        if (sends && !updated_) return "it comes before the update";
        if (!sends && !committed_) return "it comes before the commit";
        return pass(i.kind,
                    demand_.first_parameters + static_cast<std::size_t>(found - paths.begin()));
    }

    [[nodiscard]] Fault find_missing(Scope scope) const {
        return rhizome::schedule::find_missing(schedule_, demand_, ledger_, worker_, scope);
    }

    const Schedule& schedule_;
    const RunShape& shape_;
    const Demand& demand_;
    bool training_;
    std::size_t worker_;  // the one whose list this is
    const WorkerDemand& me_;
    Ledger& ledger_;

    const PipelineDemand* pipeline_ = nullptr;  // of the instruction, once its stage was looked at
    std::size_t number_ = nowhere;              // of the instruction
    std::size_t peer_ = nowhere;                // of the instruction
    bool parts_complete_ = false;
    bool committed_ = false;
    bool updated_ = false;
};

}  // namespace

Fault find_fault_of_worker(const Schedule& schedule, const Demand& demand, std::size_t worker,
                           Ledger& ledger) {
    return Walk{schedule, demand, worker, ledger}.run();
}

}  // namespace rhizome::schedule
