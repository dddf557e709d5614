// What to do after a loss. Pure: every survivor decides by the same survey and the same facts, so
// all decide the same and nobody has to be told.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ownership_map.hpp"
#include "core/run_shape.hpp"
#include "recover/shapes.hpp"
#include "recover/survey.hpp"
#include "schedule/costs.hpp"

namespace rhizome::recover {

/// The rungs of the ladder, the cheaper first, by their numbers.
enum class Rung : std::uint8_t {
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
    schedule::Style style = schedule::Style::one_f_one_b;
    OwnershipMap owners{};
    std::vector<Move> moves{};  // by receiver, then chunk; none with state_file
    double move_s = 0;          // predicted
    double step_s = 0;          // predicted, of one in the new shape
};

/// Bytes of parameters and moments that these moves carry.
[[nodiscard]] std::int64_t bytes_of(const std::vector<Move>& moves, const LayerTable& table,
                                    const OwnershipMap& owners);

/// A new shape for the members of the survey: of the fastest shapes the one for which the fewest
/// bytes move, each chunk with its owners again, and the moves that it takes. Everything comes from
/// those who have said that they have it, from several of them at once.
[[nodiscard]] Decision decide(const Survey& survey, const Facts& facts);

}  // namespace rhizome::recover
