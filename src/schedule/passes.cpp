// The passes of generate.hpp.
#include <algorithm>

#include "schedule/dry_run.hpp"
#include "schedule/exchange.hpp"
#include "schedule/generate.hpp"

namespace rhizome::schedule {
namespace {

/// A point in the global order: what is sent at a time comes before what starts then.
struct Event {
    double time_s;
    bool computes;
    std::size_t worker;  // that computes or sends
    std::size_t place;   // in its program, of the computation
};

/// Appends a message to both lists.
void add_message(Schedule& schedule, const Instruction& send, WorkerId sender) {
    ENSURE(send.peer.has_value());
    schedule.programs[schedule.shape.place_of(sender)].push_back(send);
    schedule.programs[schedule.shape.place_of(*send.peer)].push_back(counterpart(send, sender));
}

/// The message that a finished computation gives rise to, if its neighbour is another worker.
std::optional<Instruction> message_after(const Instruction& computed,
                                         const PipelineShape& pipeline) {
    const std::size_t stage = computed.stage.index();
    const WorkerId self = pipeline.stages[stage].worker;
    const bool forward = computed.kind == Kind::forward;
    const bool backward = computed.kind == Kind::backward || computed.kind == Kind::backward_input;
    if ((!forward && !backward) || (forward && stage + 1 == pipeline.stages.size()) ||
        (backward && stage == 0)) {
        return std::nullopt;
    }
    const WorkerId peer = pipeline.stages[forward ? stage + 1 : stage - 1].worker;
    if (peer == self) return std::nullopt;
    return Instruction{.kind = forward ? Kind::send_activation : Kind::send_gradient,
                       .stage = computed.stage,
                       .microbatch = computed.microbatch,
                       .peer = peer};
}

void add_parts(Schedule& schedule, const std::vector<WorkerId>& senders) {
    for (const WorkerId sender : senders) {
        for (const WorkerId receiver : schedule.shape.workers) {
            if (receiver == sender) continue;
            add_message(schedule, {.kind = Kind::send_parts, .peer = receiver}, sender);
        }
    }
}

/// Everything has to end after it has begun, also what is so short that the sums of a schedule's
/// times would round it away.
Costs without_vanishing(Costs costs) {
    constexpr double least_share = 1e-6;  // of the longest part of a layer
    double longest = 0;
    for (const LayerCost& layer : costs.layers) {
        longest =
            std::max({longest, layer.forward_s, layer.backward_input_s, layer.backward_weight_s});
    }
    for (LayerCost& layer : costs.layers) {
        for (double* part : {&layer.forward_s, &layer.backward_input_s, &layer.backward_weight_s}) {
            *part = std::max(*part, least_share * longest);
        }
    }
    return costs;
}

}  // namespace

Schedule with_recomputation(const Schedule& schedule) {
    Schedule result{.shape = schedule.shape, .programs = {}, .kept = schedule.kept};
    for (const auto& program : schedule.programs) {
        auto& longer = result.programs.emplace_back();
        for (const Instruction& each : program) {
            if (each.kind == Kind::backward || each.kind == Kind::backward_input) {
                longer.push_back(each);
                longer.back().kind = Kind::recompute;
            }
            longer.push_back(each);
        }
    }
    return result;
}

Schedule with_wires(const Schedule& schedule, const Costs& costs) {
    // Links cost nothing here: a message then has one place in the order, not two.
    Costs free_links = without_vanishing(costs);
    free_links.link_latency_s = 0;
    free_links.link_bytes_per_s = 0;
    const auto run = dry_run_computation(schedule, free_links);
    ENSURE(run.has_value());

    std::vector<Event> events;
    for (std::size_t w = 0; w < schedule.programs.size(); ++w) {
        for (std::size_t i = 0; i < schedule.programs[w].size(); ++i) {
            ENSURE(is_compute(schedule.programs[w][i].kind));
            events.push_back({run->workers[w].spans[i].start_s, true, w, i});
            events.push_back({run->workers[w].spans[i].end_s, false, w, i});
        }
    }
    std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
        return std::tie(a.time_s, a.computes) < std::tie(b.time_s, b.computes);
    });
    Schedule result{.shape = schedule.shape, .programs = {}, .kept = schedule.kept};
    result.programs.resize(schedule.programs.size());
    std::vector<const PipelineShape*> pipelines;  // by worker; null for spares, who compute nothing
    for (const WorkerId worker : schedule.shape.workers) {
        const auto pipeline = schedule.shape.pipeline_of(worker);
        pipelines.push_back(pipeline ? &schedule.shape.pipelines[pipeline->index()] : nullptr);
    }
    for (const Event& event : events) {
        const Instruction& computed = schedule.programs[event.worker][event.place];
        if (event.computes) {
            result.programs[event.worker].push_back(computed);
            continue;
        }
        if (const auto message = message_after(computed, *pipelines[event.worker])) {
            add_message(result, *message, schedule.shape.workers[event.worker]);
        }
    }
    return result;
}

Schedule with_step_end(const Schedule& schedule, const LayerTable& table,
                       const OwnershipMap& owners) {
    Schedule result = schedule;
    const RunShape& shape = schedule.shape;
    const Exchange exchange{shape, table, owners};
    for (const PipelineShape& pipeline : shape.pipelines) {
        for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
            const StageShape& stage = pipeline.stages[s];
            const auto peers = exchange.owners_of(stage.layers);
            for (const LaneRange lanes : complete_subtrees(shape.lanes.lanes, pipeline.lanes)) {
                for (const auto& [owner, elements] : peers) {
                    if (owner == stage.worker) continue;
                    add_message(result,
                                {.kind = Kind::send_sum,
                                 .stage = StageId{static_cast<std::int32_t>(s)},
                                 .lanes = lanes,
                                 .peer = owner},
                                stage.worker);
                }
            }
        }
    }
    add_parts(result, exchange.part_senders());
    for (std::size_t w = 0; w < shape.workers.size(); ++w) {
        result.programs[w].push_back({.kind = Kind::commit});
        if (exchange.owns_any(shape.workers[w])) {
            result.programs[w].push_back({.kind = Kind::update});
        }
    }
    for (const auto& [pair, elements] : exchange.parameters()) {
        add_message(result, {.kind = Kind::send_parameters, .peer = pair.second}, pair.first);
    }
    return result;
}

Schedule with_evaluation_end(const Schedule& schedule) {
    Schedule result = schedule;
    std::vector<WorkerId> senders;
    for (const PipelineShape& pipeline : schedule.shape.pipelines) {
        senders.push_back(pipeline.stages.back().worker);
    }
    add_parts(result, senders);
    return result;
}

Schedule full_step(Style style, const RunShape& shape, const Costs& costs, const LayerTable& table,
                   const OwnershipMap& owners) {
    const Schedule wired = with_wires(generate(style, shape), costs);
    return style == Style::evaluation ? with_evaluation_end(wired)
                                      : with_step_end(wired, table, owners);
}

}  // namespace rhizome::schedule
