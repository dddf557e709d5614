// Runs a schedule on a clock instead of on machines: when each instruction starts and ends, what
// the bubbles are, what decides the time, how much memory activations take. Instructions run in the
// order of their lists. Neither a send nor a receive holds up its worker: a message travels beside
// the computation, and what needs it waits for it. Parts wait for the sums received before them, a
// commit for all that was to be received before it and for everybody else's commit. Each pair of
// workers has a link of its own in each direction.
#pragma once

#include <optional>
#include <vector>

#include "schedule/costs.hpp"
#include "schedule/instruction.hpp"

namespace rhizome::schedule {

struct Span {
    double start_s;
    double end_s;
};

/// An instruction of a schedule: programs[worker][place].
struct Place {
    std::size_t worker;
    std::size_t place;
    friend auto operator<=>(const Place&, const Place&) = default;
};

struct WorkerRun {
    std::vector<Span> spans;            // by instruction
    double busy_s = 0;                  // computing
    std::int64_t peak_activations = 0;  // (stage, microbatch) pairs between forward and weight part
    std::int64_t peak_bytes = 0;        // of their wires, saved and deferred tensors
};

struct DryRun {
    std::vector<WorkerRun> workers;
    double makespan_s = 0;
    /// Of all workers that compute: the share of [0, makespan] in which they do not.
    double bubble_share = 0;
    /// From the first instruction to the last, each starting when the one before it lets it: a
    /// computation's end, a message's arrival. So the ends ascend, the last being the makespan.
    std::vector<Place> critical_path;
};

/// Bytes that a send moves, from the costs' wires or, for sums and parameters, the owned chunks
/// (4 bytes an element). `table` and `owners` may be null where there are no such instructions.
struct Sizes {
    const LayerTable* table = nullptr;
    const OwnershipMap* owners = nullptr;
};

/// A schedule of computation only: what a stage needs from its neighbour is there at once.
[[nodiscard]] std::optional<DryRun> dry_run_computation(const Schedule& schedule,
                                                        const Costs& costs);

/// Empty when the schedule deadlocks or lacks a message. Instructions must name what the shape has
/// (check.hpp): stages, microbatches, peers.
[[nodiscard]] std::optional<DryRun> dry_run(const Schedule& schedule, const Costs& costs,
                                            const Sizes& sizes = {});

}  // namespace rhizome::schedule
