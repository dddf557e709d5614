// Private to the check. Everything that a shape asks of a schedule has a number: each microbatch of
// each stage, each lane of it, each message between workers. So the check keeps flat arrays and
// walks each list once.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/layer_table.hpp"
#include "core/ownership_map.hpp"
#include "schedule/check.hpp"
#include "schedule/instruction.hpp"

namespace rhizome::schedule {

using Fault = std::optional<std::string>;

inline constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();

struct StageDemand {
    std::size_t worker;      // places in shape.workers, here and below
    std::size_t first_work;  // number of its first microbatch; the others follow
    std::size_t first_lane;
    std::size_t
        first_sum;  // message: first subtree to the first receiver; its other subtrees follow
    std::vector<std::size_t> receivers;     // of its sums; ascending, without `worker`
    std::vector<std::size_t> first_owners;  // of any chunk that it uses; ascending
};

struct PipelineDemand {
    std::int32_t first_microbatch;
    std::int32_t last_microbatch;  // one past the end
    LaneRange lanes;
    std::vector<LaneRange> subtrees;
    std::vector<StageDemand> stages;

    /// Number of a microbatch of a stage.
    [[nodiscard]] std::size_t work_of(std::size_t stage, Microbatch microbatch) const {
        return stages[stage].first_work +
               static_cast<std::size_t>(microbatch.value() - first_microbatch);
    }
};

/// All sums of one stage for one receiver.
struct IncomingSums {
    std::size_t pipeline;
    std::size_t stage;
    std::size_t first_sum;
};

struct WorkerDemand {
    std::optional<std::size_t> pipeline;
    std::vector<std::size_t> stages;
    std::vector<IncomingSums> sums;
    bool owns = false;
    std::optional<std::size_t> parts_row;  // if it has parts of norm or loss
};

/// First owner and a holder that owns none of what it gets from there.
struct ParametersPath {
    std::size_t from;
    std::size_t to;
    friend auto operator<=>(const ParametersPath&, const ParametersPath&) = default;
};

struct Demand {
    Purpose purpose = Purpose::training;
    std::vector<PipelineDemand> pipelines;
    std::vector<WorkerDemand> workers;
    std::vector<std::size_t> parts_senders;  // by row
    std::vector<ParametersPath> parameters;  // ascending
    std::size_t works = 0;                   // microbatches of all stages
    std::size_t works_kept = 0;              // of them, for which nothing is computed
    std::size_t lanes = 0;                   // lanes of all stages
    // Messages are numbered: activations and gradients by what receives or sends them at the later
    // stage, then sums, parts by sender and receiver, parameters.
    std::size_t first_sum = 0;
    std::size_t first_parts = 0;
    std::size_t first_parameters = 0;
    std::size_t messages = 0;

    [[nodiscard]] std::size_t activation(std::size_t work) const { return work; }
    [[nodiscard]] std::size_t gradient(std::size_t work) const { return works + work; }
    [[nodiscard]] std::size_t parts(std::size_t row, std::size_t to) const {
        return first_parts + row * workers.size() + to;
    }
    /// No right schedule is shorter.
    [[nodiscard]] std::size_t instructions_min() const;
};

/// The first thing wrong with a map of owners, or with the table that it is for.
[[nodiscard]] Fault find_fault_of_owners(const RunShape& shape, const LayerTable& table,
                                         const OwnershipMap& owners);

/// Of faultless arguments.
[[nodiscard]] Demand demand_of(const Schedule& schedule, const LayerTable& table,
                               const OwnershipMap& owners, Purpose purpose);

/// The instructions at both ends of a message, numbered over all lists.
struct Ends {
    std::size_t sent = nowhere;
    std::size_t received = nowhere;
};

inline constexpr std::uint8_t forward_done = 1;
inline constexpr std::uint8_t recompute_done = 2;
inline constexpr std::uint8_t input_done = 4;
inline constexpr std::uint8_t weight_done = 8;

/// What the lists that were walked do.
struct Ledger {
    std::vector<std::uint8_t> work;        // by microbatch of a stage: the bits below
    std::vector<std::int32_t> lane_sizes;  // microbatches whose weight gradients were added
    std::vector<Ends> messages;
    std::vector<std::size_t> first_of;  // by worker: number of the first instruction
    std::vector<std::size_t> peers;     // by instruction; nowhere for those that stay at home
};

/// Walks one list. After a walk without fault of every list, all messages but those with parameters
/// have both ends.
[[nodiscard]] Fault find_fault_of_worker(const Schedule& schedule, const Demand& demand,
                                         std::size_t worker, Ledger& ledger);

enum class Scope : std::uint8_t {
    parts,  // what goes into a worker's parts of norm and loss
    step,   // all that comes before its commit
};

/// The first instruction of that scope that a worker has not done yet.
[[nodiscard]] Fault find_missing(const Schedule& schedule, const Demand& demand,
                                 const Ledger& ledger, std::size_t worker, Scope scope);

/// Every message must have both ends.
[[nodiscard]] Fault find_deadlock(const Schedule& schedule, const Ledger& ledger,
                                  Buffering buffering);

/// "worker 3, instruction 17 (B2:5)"
[[nodiscard]] std::string where(const Schedule& schedule, std::size_t worker, std::size_t place);

}  // namespace rhizome::schedule
