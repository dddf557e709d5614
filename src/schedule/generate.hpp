// From a shape to a schedule: a generator gives each worker its computation, passes add the rest.
//
// Passes put what is sent and what is received into both lists in the order of one simulated clock.
// Both lists are then extracts of one global order of events, so no schedule made here can
// deadlock, even where nothing is buffered and sender and receiver have to meet. The clock takes
// computation as it is told and messages as free, so a receive stands where its data would be ready
// at the earliest. Whoever executes it should take a receive as "from here on there is room for it"
// and wait where the data are needed, as the dry run does.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ownership_map.hpp"
#include "schedule/costs.hpp"
#include "schedule/instruction.hpp"

namespace rhizome::schedule {

// How the styles look with equal costs: a column is one of forward (F), input part (I) and weight
// part (W); a whole backward (B) takes two. A test compares these drawings with the generators.
//
// Drawing of gpipe:
//   worker 0 | F0 F1 F2 F3 .. .. .. .. .. .. .. .. .. B0 -- B1 -- B2 -- B3 --
//   worker 1 | .. F0 F1 F2 F3 .. .. .. .. .. .. B0 -- B1 -- B2 -- B3 --
//   worker 2 | .. .. F0 F1 F2 F3 .. .. .. B0 -- B1 -- B2 -- B3 --
//   worker 3 | .. .. .. F0 F1 F2 F3 B0 -- B1 -- B2 -- B3 --
//
// Drawing of 1f1b:
//   worker 0 | F0 F1 F2 F3 .. .. .. .. .. .. B0 -- .. B1 -- .. B2 -- .. B3 --
//   worker 1 | .. F0 F1 F2 .. .. .. .. B0 -- F3 B1 -- .. B2 -- .. B3 --
//   worker 2 | .. .. F0 F1 .. .. B0 -- F2 B1 -- F3 B2 -- .. B3 --
//   worker 3 | .. .. .. F0 B0 -- F1 B1 -- F2 B2 -- F3 B3 --
//
// Drawing of interleaved, where the stage stands before the letter:
//   worker 0 | 0F0 0F1 2F0 2F1 ..  ..  2B0 --  ..  2B1 --  0B0 --  0B1 --
//   worker 1 | ..  1F0 1F1 3F0 3B0 --  3F1 3B1 --  1B0 --  1B1 --
//
// Drawing of zb-h1:
//   worker 0 | F0 F1 F2 F3 .. .. .. I0 W0 F4 I1 W1 F5 I2 W2 F6 I3 W3 F7 I4 W4 I5 W5 I6 W6 I7 W7
//   worker 1 | .. F0 F1 F2 .. .. I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 F6 I4 W3 F7 I5 W4 I6 W5 I7 W6 W7
//   worker 2 | .. .. F0 F1 .. I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 F6 I5 W3 F7 I6 W4 I7 W5 W6 W7
//   worker 3 | .. .. .. F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 F6 I6 W3 F7 I7 W4 W5 W6 W7
//
// Drawing of zb-h2:
//   worker 0 | F0 F1 F2 F3 F4 F5 F6 I0 W0 F7 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5 I6 W6 I7 W7
//   worker 1 | .. F0 F1 F2 F3 F4 I0 F5 I1 F6 I2 W0 F7 I3 W1 I4 W2 I5 W3 I6 W4 I7 W5 W6 W7
//   worker 2 | .. .. F0 F1 F2 I0 F3 I1 F4 I2 F5 I3 F6 I4 W0 F7 I5 W1 I6 W2 I7 W3 W4 W5 W6 W7
//   worker 3 | .. .. .. F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 F5 I5 F6 I6 W0 F7 I7 W1 W2 W3 W4 W5 W6 W7

enum class Style : std::uint8_t {
    gpipe,        // all forward, then all backward (Huang et al. 2019), ascending
    one_f_one_b,  // PipeDream-Flush (Narayanan et al. 2021, Memory-Efficient Pipeline-Parallel DNN)
    interleaved,  // 1F1B with several stages per worker (Narayanan et al. 2021, Megatron-LM, 2.2)
    zero_bubble_h1,  // memory as 1F1B (Qi et al. 2023, Zero Bubble Pipeline Parallelism, 2.2)
    // Up to 2 p - 1 microbatches alive for p stages, and from so many microbatches on no bubble
    // between a worker's first and last computation; with fewer, H1 is better. A step that ends for
    // all at once, as ours do, gains nothing over H1 at equal costs.
    zero_bubble_h2,
    evaluation,  // forward only
};

/// gpipe, 1f1b, interleaved, zb-h1, zb-h2, evaluation
[[nodiscard]] std::string_view name_of(Style style);
[[nodiscard]] std::optional<Style> style_of(std::string_view name);
[[nodiscard]] const std::vector<Style>& all_styles();

/// Why a style cannot be had in a (faultless) shape: interleaved wants stages dealt out in turn,
/// the others one stage per worker. evaluation takes either.
[[nodiscard]] std::optional<std::string> find_misfit(Style style, const RunShape& shape);

/// Computation only, of all lanes but those kept. The style must fit.
[[nodiscard]] Schedule generate(Style style, const RunShape& shape,
                                const std::vector<Lane>& kept = {});

/// Puts a recompute before every backward (or input part).
[[nodiscard]] Schedule with_recomputation(const Schedule& schedule);

/// Adds the wires between stages on different workers. `costs` order events that no dependency
/// orders; equal costs will do.
[[nodiscard]] Schedule with_wires(const Schedule& schedule, const Costs& costs);

/// Adds the end of a training step: sums to owners, parts, commit, update, parameters to holders.
[[nodiscard]] Schedule with_step_end(const Schedule& schedule, const LayerTable& table,
                                     const OwnershipMap& owners);

/// Adds the end of an evaluation: the loss parts go to everybody.
[[nodiscard]] Schedule with_evaluation_end(const Schedule& schedule);

/// All of it, in order.
[[nodiscard]] Schedule full_step(Style style, const RunShape& shape, const Costs& costs,
                                 const LayerTable& table, const OwnershipMap& owners);

}  // namespace rhizome::schedule
