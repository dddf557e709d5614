// One worker's list of instructions, made ready to be carried out again and again: which message
// each send and receive is, when memory for a microbatch begins and ends to be needed, and so how
// much of it there has to be. Plain data, made once per schedule.
#pragma once

#include <map>
#include <vector>

#include "engine/stage_memory.hpp"
#include "schedule/instruction.hpp"
#include "world/world.hpp"

namespace rhizome::engine {

/// What happens to the memory of an instruction's microbatch, beside the instruction itself.
struct MemoryUse {
    bool opens_slot = false;        // before it
    bool opens_work_area = false;   // before it
    bool closes_work_area = false;  // after it
    bool closes_slot = false;       // after it
    bool hands_on_activation =
        false;                       // to the next stage, on the same worker, opening a slot there
    bool hands_on_gradient = false;  // to the stage before, on the same worker
};

struct Operation {
    schedule::Instruction what;
    world::Tag tag{0};  // of sends and receives
    MemoryUse memory{};
};

struct Program {
    std::vector<Operation> operations;
    /// By stage of this worker: how many microbatches have memory at once, at most. One slot more
    /// than are open where wires are sent, so that a message under way holds nobody up.
    std::map<StageId, StageMemory::Counts> counts;
};

/// The schedule must be faultless (schedule/check.hpp). Tags begin at `first_tag`; both ends of a
/// message find the same one.
[[nodiscard]] Program compile(const schedule::Schedule& schedule, WorkerId self,
                              std::int32_t first_tag);

}  // namespace rhizome::engine
