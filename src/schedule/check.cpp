#include "schedule/check.hpp"

#include "schedule/check_private.hpp"

namespace rhizome::schedule {
namespace {

std::string name_of(const RunShape& shape, std::size_t worker) {
    return "worker " + std::to_string(shape.workers[worker].value());
}

Fault find_fault_of_kept(const Schedule& schedule, Purpose purpose) {
    const std::vector<Lane>& kept = schedule.kept;
    if (!kept.empty() && purpose == Purpose::evaluation) return "an evaluation keeps no lanes";
    for (std::size_t i = 0; i < kept.size(); ++i) {
        if (kept[i].value() >= schedule.shape.lanes.lanes || (i > 0 && !(kept[i - 1] < kept[i]))) {
            return "the lanes kept are not some of the step's, each once, ascending (" +
                   std::to_string(kept[i].value()) + ")";
        }
    }
    return std::nullopt;
}

/// Where all is there already.
void take_kept(const Schedule& schedule, const Demand& demand, Ledger& ledger) {
    const LaneShape& lanes = schedule.shape.lanes;
    for (const PipelineDemand& pipeline : demand.pipelines) {
        for (std::int32_t m = pipeline.first_microbatch; m < pipeline.last_microbatch; ++m) {
            const Microbatch microbatch{m};
            if (!schedule.keeps(microbatch)) continue;
            const auto lane =
                static_cast<std::size_t>(lanes.lane_of(microbatch).value() - pipeline.lanes.first);
            for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
                ledger.work[pipeline.work_of(s, microbatch)] =
                    forward_done | input_done | weight_done;
                ++ledger.lane_sizes[pipeline.stages[s].first_lane + lane];
            }
        }
    }
}

Fault find_fault_of_inputs(const Schedule& schedule, Purpose purpose, const LayerTable& table,
                           const OwnershipMap& owners, Buffering buffering) {
    const RunShape& shape = schedule.shape;
    const LaneShape& lanes = shape.lanes;
    if (lanes.lanes <= 0 || lanes.microbatches <= 0 || lanes.microbatches % lanes.lanes != 0) {
        return std::to_string(lanes.microbatches) + " microbatches make no " +
               std::to_string(lanes.lanes) + " lanes of equal length";
    }
    if (auto fault = find_fault(shape, static_cast<std::int32_t>(table.layers.size()))) {
        return fault;
    }
    if (auto fault = find_fault_of_owners(shape, table, owners)) return fault;
    if (auto fault = find_fault_of_kept(schedule, purpose)) return fault;
    if (schedule.programs.size() != shape.workers.size()) {
        return "there are " + std::to_string(schedule.programs.size()) + " lists (for " +
               std::to_string(shape.workers.size()) + " workers)";
    }
    if (buffering.messages_max && *buffering.messages_max < 0) {
        return "fewer than no messages are buffered";
    }
    return std::nullopt;
}

Fault find_missing_parameters(const RunShape& shape, const Demand& demand, const Ledger& ledger) {
    for (std::size_t i = 0; i < demand.parameters.size(); ++i) {
        const auto [from, to] = demand.parameters[i];
        const Ends& ends = ledger.messages[demand.first_parameters + i];
        if (ends.sent == nowhere) {
            const Instruction missing{.kind = Kind::send_parameters, .peer = shape.workers[to]};
            return name_of(shape, from) + " ends without " + to_text(missing);
        }
        if (ends.received == nowhere) {
            const Instruction missing{.kind = Kind::receive_parameters,
                                      .peer = shape.workers[from]};
            return name_of(shape, to) + " ends without " + to_text(missing);
        }
    }
    return std::nullopt;
}

}  // namespace

std::string where(const Schedule& schedule, std::size_t worker, std::size_t place) {
    return name_of(schedule.shape, worker) + ", instruction " + std::to_string(place) + " (" +
           to_text(schedule.programs[worker][place]) + ")";
}

std::optional<std::string> find_fault(const Schedule& schedule, Purpose purpose,
                                      const LayerTable& table, const OwnershipMap& owners,
                                      Buffering buffering) {
    if (auto fault = find_fault_of_inputs(schedule, purpose, table, owners, buffering)) {
        return fault;
    }
    const Demand demand = demand_of(schedule, table, owners, purpose);

    Ledger ledger;
    std::size_t instructions = 0;
    for (const auto& program : schedule.programs) {
        ledger.first_of.push_back(instructions);
        instructions += program.size();
    }
    // Before there is memory for all of it: a shape may name more microbatches than a machine
    // holds.
    if (instructions < demand.instructions_min()) {
        return "there are " + std::to_string(instructions) + " instructions (at least " +
               std::to_string(demand.instructions_min()) + " are needed)";
    }
    ledger.work.resize(demand.works, 0);
    ledger.lane_sizes.resize(demand.lanes, 0);
    ledger.messages.resize(demand.messages);
    ledger.peers.resize(instructions, nowhere);
    take_kept(schedule, demand, ledger);
    for (std::size_t worker = 0; worker < schedule.programs.size(); ++worker) {
        if (auto fault = find_fault_of_worker(schedule, demand, worker, ledger)) {
            return fault;
        }
    }
    if (auto fault = find_missing_parameters(schedule.shape, demand, ledger)) return fault;
    return find_deadlock(schedule, ledger, buffering);
}

}  // namespace rhizome::schedule
