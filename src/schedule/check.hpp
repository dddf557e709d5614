// Whether a schedule is right, by itself: it may come from a generator, a pass, a file, or a hand.
#pragma once

#include <optional>
#include <string>

#include "core/layer_table.hpp"
#include "core/ownership_map.hpp"
#include "schedule/instruction.hpp"

namespace rhizome::schedule {

enum class Purpose : std::uint8_t { training, evaluation };

/// Between two workers, in one direction: how many messages may be sent and not yet received.
struct Buffering {
    std::optional<std::int32_t>
        messages_max;  // 0: sender and receiver have to meet; empty: no limit
};

/// The first fault of a schedule, with the worker and the instruction where it shows, or nothing if
///   - each stage computes each microbatch of its pipeline's lanes exactly once in each direction,
///     on its own worker, with a forward before its backward and an input part before a weight
///     part; but none of a lane that is kept, which only a training step may have;
///   - the weight gradients of a stage's lane are added in ascending microbatch order;
///   - every wire that crosses between workers is sent once after it was made and received once
///     before it is needed, and no other is;
///   - every owner gets, once, each complete subtree of lane sums of the chunks that it owns from
///     each pipeline, after the last microbatch of these lanes, and every worker all parts of norm
///     and loss of all others that have any; all that before its commit, of which there is one;
///   - every owner updates once after its commit, and new parameters reach each holder that does
///   not
///     own them from their first owner, after its update;
///   - every send has a receive, in an order that comes to its end with that much buffering.
[[nodiscard]] std::optional<std::string> find_fault(const Schedule& schedule, Purpose purpose,
                                                    const LayerTable& table,
                                                    const OwnershipMap& owners,
                                                    Buffering buffering);

}  // namespace rhizome::schedule
