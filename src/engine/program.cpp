#include "engine/program.hpp"

#include <algorithm>
#include <optional>
#include <tuple>

namespace rhizome::engine {

using schedule::Instruction;
using schedule::Kind;
using schedule::Schedule;

namespace {

/// Messages as their sender names them.
class Tags {
  public:
    Tags(const Schedule& schedule, WorkerId self, std::int32_t first_tag) {
        std::map<std::pair<WorkerId, WorkerId>, std::int32_t> next;
        for (std::size_t w = 0; w < schedule.programs.size(); ++w) {
            const WorkerId sender = schedule.shape.workers[w];
            for (const Instruction& each : schedule.programs[w]) {
                if (!schedule::is_send(each.kind)) continue;
                ENSURE(each.peer.has_value());
                if (sender != self && *each.peer != self) continue;
                auto& count = next.try_emplace({sender, *each.peer}, first_tag).first->second;
                ENSURE(tags_.emplace(key_of(each, sender), world::Tag{count++}).second);
            }
        }
    }

    [[nodiscard]] world::Tag of(const Instruction& what, WorkerId self) const {
        ENSURE(what.peer.has_value());
        const bool sends = schedule::is_send(what.kind);
        const auto found = tags_.find(
            sends ? key_of(what, self) : key_of(schedule::counterpart(what, self), *what.peer));
        ENSURE(found != tags_.end());
        return found->second;
    }

  private:
    using Key = std::tuple<WorkerId, Kind, StageId, Microbatch, LaneRange, std::optional<WorkerId>>;

    [[nodiscard]] static Key key_of(const Instruction& sent, WorkerId sender) {
        return {sender, sent.kind, sent.stage, sent.microbatch, sent.lanes, sent.peer};
    }

    std::map<Key, world::Tag> tags_;
};

bool is_about_microbatch(Kind kind) {
    return schedule::is_compute(kind) || schedule::is_wire(kind);
}

bool ends_backward(Kind kind) { return kind == Kind::backward || kind == Kind::backward_weight; }

/// What the whole list says about one stage and microbatch.
struct Life {
    std::size_t first;
    std::size_t last;
    bool recomputes = false;
    bool has_backward = false;
};

using Lives = std::map<std::pair<StageId, Microbatch>, Life>;

Lives lives_of(const std::vector<Instruction>& list) {
    Lives lives;
    for (std::size_t i = 0; i < list.size(); ++i) {
        if (!is_about_microbatch(list[i].kind)) continue;
        Life& life =
            lives.try_emplace({list[i].stage, list[i].microbatch}, Life{i, i}).first->second;
        life.last = i;
        life.recomputes |= list[i].kind == Kind::recompute;
        life.has_backward |= ends_backward(list[i].kind);
    }
    return lives;
}

MemoryUse memory_use(const Instruction& what, std::size_t place, const Life& life,
                     const PipelineShape& pipeline, WorkerId self) {
    const std::size_t stage = what.stage.index();
    const auto is_here = [&](std::size_t other) {
        return other < pipeline.stages.size() && pipeline.stages[other].worker == self;
    };
    const bool forward = what.kind == Kind::forward;
    const bool transient = life.recomputes || !life.has_backward;
    MemoryUse use;
    use.opens_slot = place == life.first && !is_here(stage - 1);
    use.opens_work_area = forward || what.kind == Kind::recompute;
    use.closes_work_area = (forward && transient) || ends_backward(what.kind);
    use.closes_slot = place == life.last;
    use.hands_on_activation = forward && is_here(stage + 1);
    use.hands_on_gradient =
        (what.kind == Kind::backward || what.kind == Kind::backward_input) && is_here(stage - 1);
    return use;
}

/// How many are open at once.
struct Gauge {
    std::int32_t open = 0;
    std::int32_t most = 0;
    void add(std::int32_t by) {
        open += by;
        most = std::max(most, open);
    }
};

std::map<StageId, StageMemory::Counts> counts_of(const std::vector<Operation>& operations) {
    std::map<StageId, Gauge> slots;
    std::map<StageId, Gauge> areas;
    std::map<StageId, bool> sends;
    for (const Operation& each : operations) {
        if (!is_about_microbatch(each.what.kind)) continue;
        const StageId stage = each.what.stage;
        sends[stage] |= schedule::is_send(each.what.kind);
        if (each.memory.opens_slot) slots[stage].add(1);
        if (each.memory.hands_on_activation) slots[StageId{stage.value() + 1}].add(1);
        if (each.memory.opens_work_area) areas[stage].add(1);
        if (each.memory.closes_work_area) areas[stage].add(-1);
        if (each.memory.closes_slot) slots[stage].add(-1);
    }
    std::map<StageId, StageMemory::Counts> counts;
    for (const auto& [stage, gauge] : slots) {
        ENSURE(gauge.open == 0 && areas[stage].open == 0);
        counts.emplace(stage, StageMemory::Counts{.slots = gauge.most + (sends[stage] ? 1 : 0),
                                                  .work_areas = areas[stage].most});
    }
    return counts;
}

}  // namespace

Program compile(const Schedule& schedule, WorkerId self, std::int32_t first_tag) {
    const std::vector<Instruction>& list = schedule.programs[schedule.shape.place_of(self)];
    const Tags tags{schedule, self, first_tag};
    const Lives lives = lives_of(list);
    const auto pipeline = schedule.shape.pipeline_of(self);
    Program program;
    for (std::size_t i = 0; i < list.size(); ++i) {
        Operation operation{.what = list[i]};
        if (list[i].peer) operation.tag = tags.of(list[i], self);
        if (is_about_microbatch(list[i].kind)) {
            ENSURE(pipeline.has_value());
            operation.memory = memory_use(list[i], i, lives.at({list[i].stage, list[i].microbatch}),
                                          schedule.shape.pipelines[pipeline->index()], self);
        }
        program.operations.push_back(operation);
    }
    program.counts = counts_of(program.operations);
    return program;
}

}  // namespace rhizome::engine
