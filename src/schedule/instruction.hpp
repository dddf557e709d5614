// What a worker does in a step, as data. A schedule is one list of instructions per worker; it can
// be printed, parsed, checked, drawn, costed, changed by passes, and is executed by an interpreter
// that knows nothing else.
//
// Layers appear as a stage: a place in the pipeline of the worker that computes. It is the
// instruction's own worker, except in receive_sum, where it is the peer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/lane_tree.hpp"
#include "core/run_shape.hpp"

namespace rhizome::schedule {

enum class Kind : std::uint8_t {
    // one microbatch through the layers of one stage
    forward,          // F
    backward,         // B  the input part, then the weight part
    backward_input,   // I
    backward_weight,  // W
    recompute,        // R  forward again, before the backward that needs it
    // wires of one microbatch between neighbouring stages on different workers
    send_activation,     // SA  outputs of this stage, to the next
    receive_activation,  // RA  inputs of this stage, from the one before
    send_gradient,       // SG  gradients of this stage's inputs, to the one before
    receive_gradient,    // RG  gradients of this stage's outputs, from the next
    // the end of a step
    send_sum,            // SS  gradient of this stage's chunks that the peer owns, one complete
                         //     subtree of lanes
    receive_sum,         // RS
    send_parts,          // SP  parts of norm and loss that the peer does not have
    receive_parts,       // RP
    commit,              // C   the step's point of no return
    update,              // U   optimizer, on all chunks owned here
    send_parameters,     // SW  new parameters of chunks that the peer holds and does not own
    receive_parameters,  // RW
};

struct Instruction {
    Kind kind;
    StageId stage{0};                // compute, wires, sums
    Microbatch microbatch{0};        // compute, wires
    LaneRange lanes{0, 0};           // sums
    std::optional<WorkerId> peer{};  // everything that is sent or received

    friend bool operator==(const Instruction&, const Instruction&) = default;
};

/// Invariant: one program per entry of shape.workers, in that order.
struct Schedule {
    RunShape shape;
    std::vector<std::vector<Instruction>> programs;
    /// Lanes whose sums and losses their pipelines have from before, ascending: nothing is computed
    /// for them, and at the end of the step they count like all others.
    std::vector<Lane> kept{};

    /// Is its lane kept?
    [[nodiscard]] bool keeps(Microbatch microbatch) const {
        return std::binary_search(kept.begin(), kept.end(), shape.lanes.lane_of(microbatch));
    }
    friend bool operator==(const Schedule&, const Schedule&) = default;
};

[[nodiscard]] constexpr bool is_compute(Kind kind) { return kind <= Kind::recompute; }
[[nodiscard]] constexpr bool is_wire(Kind kind) {
    return Kind::send_activation <= kind && kind <= Kind::receive_gradient;
}
[[nodiscard]] constexpr bool is_sum(Kind kind) {
    return kind == Kind::send_sum || kind == Kind::receive_sum;
}
[[nodiscard]] bool is_send(Kind kind);
[[nodiscard]] bool is_receive(Kind kind);

/// What the peer of a send or receive has to do: the same with the two sides exchanged. `self` is
/// the worker whose instruction it is.
[[nodiscard]] Instruction counterpart(const Instruction& instruction, WorkerId self);

/// F, SA, ...: how the text form begins.
[[nodiscard]] std::string_view word_of(Kind kind);

/// One word: F0:7, SA0:7>4, RG0:7<4, SS0:0-2>5, SP>3, C. Parses back (draw.hpp).
[[nodiscard]] std::string to_text(const Instruction& instruction);

}  // namespace rhizome::schedule
