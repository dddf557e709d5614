#include <algorithm>

#include "schedule/check_private.hpp"

namespace rhizome::schedule {
namespace {

class Missing {
  public:
    Missing(const Schedule& schedule, const Demand& demand, const Ledger& ledger,
            std::size_t worker, Scope scope)
        : schedule_{schedule},
          shape_{schedule.shape},
          demand_{demand},
          ledger_{ledger},
          worker_{worker},
          training_{demand.purpose == Purpose::training},
          all_{scope == Scope::step} {}

    [[nodiscard]] Fault find() const {
        const WorkerDemand& me = demand_.workers[worker_];
        if (me.pipeline) {
            const PipelineDemand& pipeline = demand_.pipelines[*me.pipeline];
            for (const std::size_t stage : me.stages) {
                if (auto missing = find_of_stage(pipeline, stage)) return missing;
                if (!all_ || !training_) continue;
                if (auto missing = find_sent_sum(pipeline, stage)) return missing;
            }
        }
        for (const IncomingSums& sums : me.sums) {
            const PipelineDemand& pipeline = demand_.pipelines[sums.pipeline];
            const StageDemand& stage = pipeline.stages[sums.stage];
            if (!all_ && !in_norm(stage)) continue;
            for (std::size_t i = 0; i < pipeline.subtrees.size(); ++i) {
                if (ledger_.messages[sums.first_sum + i].received != nowhere) continue;
                return text_of(Kind::receive_sum, sums.stage, pipeline.subtrees[i], stage.worker);
            }
        }
        return all_ ? find_parts() : std::nullopt;
    }

  private:
    /// Are there chunks of that stage in this worker's part of the norm?
    [[nodiscard]] bool in_norm(const StageDemand& stage) const {
        return std::binary_search(stage.first_owners.begin(), stage.first_owners.end(), worker_);
    }

    [[nodiscard]] Fault find_of_stage(const PipelineDemand& pipeline, std::size_t stage) const {
        const auto& stages = pipeline.stages;
        const bool is_last = stage + 1 == stages.size();
        const bool forward = all_ || is_last;
        const bool weight = training_ && (all_ || in_norm(stages[stage]));
        const bool to_next = all_ && !is_last && stages[stage + 1].worker != worker_;
        const bool to_previous =
            all_ && training_ && stage > 0 && stages[stage - 1].worker != worker_;
        for (std::int32_t m = pipeline.first_microbatch; m < pipeline.last_microbatch; ++m) {
            const Microbatch microbatch{m};
            if (schedule_.keeps(microbatch)) continue;
            const std::size_t work = pipeline.work_of(stage, microbatch);
            const std::uint8_t done = ledger_.work[work];
            if (forward && (done & forward_done) == 0) return text_of(Kind::forward, stage, m);
            if (weight && (done & input_done) == 0) return text_of(Kind::backward, stage, m);
            if (weight && (done & weight_done) == 0) {
                return text_of(Kind::backward_weight, stage, m);
            }
            if (to_next) {
                const std::size_t next = pipeline.work_of(stage + 1, microbatch);
                if (ledger_.messages[demand_.activation(next)].sent == nowhere) {
                    return text_of(Kind::send_activation, stage, m, stages[stage + 1].worker);
                }
            }
            if (to_previous && ledger_.messages[demand_.gradient(work)].sent == nowhere) {
                return text_of(Kind::send_gradient, stage, m, stages[stage - 1].worker);
            }
        }
        return std::nullopt;
    }

    [[nodiscard]] Fault find_sent_sum(const PipelineDemand& pipeline, std::size_t stage) const {
        std::size_t message = pipeline.stages[stage].first_sum;
        for (const std::size_t receiver : pipeline.stages[stage].receivers) {
            for (const LaneRange lanes : pipeline.subtrees) {
                if (ledger_.messages[message++].sent != nowhere) continue;
                return text_of(Kind::send_sum, stage, lanes, receiver);
            }
        }
        return std::nullopt;
    }

    [[nodiscard]] Fault find_parts() const {
        for (std::size_t row = 0; row < demand_.parts_senders.size(); ++row) {
            const std::size_t from = demand_.parts_senders[row];
            if (from != worker_) {
                if (ledger_.messages[demand_.parts(row, worker_)].received != nowhere) continue;
                return to_text({.kind = Kind::receive_parts, .peer = shape_.workers[from]});
            }
            for (std::size_t to = 0; to < shape_.workers.size(); ++to) {
                if (to == worker_ || ledger_.messages[demand_.parts(row, to)].sent != nowhere) {
                    continue;
                }
                return to_text({.kind = Kind::send_parts, .peer = shape_.workers[to]});
            }
        }
        return std::nullopt;
    }

    [[nodiscard]] std::string text_of(Kind kind, std::size_t stage, std::int32_t microbatch,
                                      std::optional<std::size_t> peer = std::nullopt) const {
        Instruction instruction{.kind = kind,
                                .stage = StageId{static_cast<std::int32_t>(stage)},
                                .microbatch = Microbatch{microbatch}};
        if (peer) instruction.peer = shape_.workers[*peer];
        return to_text(instruction);
    }

    [[nodiscard]] std::string text_of(Kind kind, std::size_t stage, LaneRange lanes,
                                      std::size_t peer) const {
        return to_text({.kind = kind,
                        .stage = StageId{static_cast<std::int32_t>(stage)},
                        .lanes = lanes,
                        .peer = shape_.workers[peer]});
    }

    const Schedule& schedule_;
    const RunShape& shape_;
    const Demand& demand_;
    const Ledger& ledger_;
    std::size_t worker_;
    bool training_;
    bool all_;
};

}  // namespace

Fault find_missing(const Schedule& schedule, const Demand& demand, const Ledger& ledger,
                   std::size_t worker, Scope scope) {
    return Missing{schedule, demand, ledger, worker, scope}.find();
}

}  // namespace rhizome::schedule
