// What to do after a loss. Pure: every survivor decides by the same survey and the same facts, so
// all decide the same and nobody has to be told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ownership_map.hpp"
#include "core/run_shape.hpp"
#include "recover/keep_lanes.hpp"
#include "recover/shapes.hpp"
#include "recover/survey.hpp"
#include "schedule/costs.hpp"

namespace rhizome::recover {

/// The rungs of the ladder, the cheaper first, by their numbers.
enum class Rung : std::uint8_t {
    redo = 2,        // pipelines that lost nobody keep the lanes they had done, and do the others
    replan = 3,      // a new shape, from the copies that survivors have
    state_file = 6,  // some chunk has no owner any more: the newest whole state, or the initial one
    park = 7,        // nothing can be made of those who are left
};

/// "3 re-plan"
[[nodiscard]] std::string name_of(Rung rung);

/// What a decision goes by besides the survey. The same for all workers.
struct Facts {
    const LayerTable& table;
    Manner manner;
    std::int32_t redundancy;  // owners of each chunk; 0: every worker
    /// Of links between workers; 0: no limit. For what moves.
    double link_bytes_per_s = 0;
};

/// Values of one chunk, from one who has them to one who will need them.
struct Move {
    WorkerId from;
    WorkerId to;
    std::size_t chunk;  // place in the ownership map
    bool parameters;
    bool moments;
    friend bool operator==(const Move&, const Move&) = default;
};

struct Decision {
    Rung rung;
    std::string reason;      // a sentence's end: "all chunks have an owner, 2 pipelines of ..."
    std::int32_t steps = 0;  // that stay committed; with state_file they do not
    // --- not when parking ---
    RunShape shape{.workers = {}, .lanes = {1, 1}, .pipelines = {}};
    std::vector<Lane> kept{};  // with redo: of the step under way, by the pipelines that have them
    schedule::Style style = schedule::Style::one_f_one_b;
    OwnershipMap owners{};
    std::vector<Move> moves{};  // by receiver, then chunk; none with state_file
    double move_s = 0;          // predicted
    double step_s = 0;          // predicted, of one in the new shape
    double rest_s = 0;          // predicted, of what is left of the step under way
};

/// Bytes of parameters and moments that these moves carry.
[[nodiscard]] std::int64_t bytes_of(const std::vector<Move>& moves, const LayerTable& table,
                                    const OwnershipMap& owners);

/// A shape for the members of the survey, each chunk with its owners again, and the moves that it
/// takes. Everything comes from those who have said that they have it, from several of them at
/// once. Either the shape is a new one, of the fastest the one for which the fewest bytes move, and
/// the step under way is done again; or, where that ends earlier, what is left of the present one,
/// and the step keeps what can be kept.
[[nodiscard]] Decision decide(const Survey& survey, const Facts& facts, const InUse& in_use);

/// Between two steps, when nobody is lost: the new shape, if the `steps` to come are shorter in it
/// by more than it takes to get there.
[[nodiscard]] std::optional<Decision> decide_between_steps(const Survey& survey, const Facts& facts,
                                                           const InUse& in_use, std::int32_t steps);

}  // namespace rhizome::recover
