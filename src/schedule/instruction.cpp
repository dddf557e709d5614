#include "schedule/instruction.hpp"

#include <array>
#include <string_view>

namespace rhizome::schedule {
namespace {

constexpr std::array<std::string_view, 17> words{
    "F", "B", "I", "W", "R", "SA", "RA", "SG", "RG", "SS", "RS", "SP", "RP", "C", "U", "SW", "RW"};

/// Sends and receives alternate from send_activation on, but for commit and update.
bool alternates(Kind kind) {
    return kind >= Kind::send_activation && kind != Kind::commit && kind != Kind::update;
}

}  // namespace

std::string_view word_of(Kind kind) { return words[static_cast<std::size_t>(kind)]; }

bool is_send(Kind kind) { return alternates(kind) && word_of(kind)[0] == 'S'; }

bool is_receive(Kind kind) { return alternates(kind) && word_of(kind)[0] == 'R'; }

Instruction counterpart(const Instruction& instruction, WorkerId self) {
    ENSURE(instruction.peer.has_value());
    const auto number = static_cast<std::uint8_t>(instruction.kind);
    Instruction other = instruction;
    other.kind = static_cast<Kind>(is_send(instruction.kind) ? number + 1 : number - 1);
    other.peer = self;
    // A wire leaves one stage and enters its neighbour.
    if (instruction.kind == Kind::send_activation || instruction.kind == Kind::receive_gradient) {
        other.stage = StageId{instruction.stage.value() + 1};
    } else if (instruction.kind == Kind::receive_activation ||
               instruction.kind == Kind::send_gradient) {
        other.stage = StageId{instruction.stage.value() - 1};
    }
    return other;
}

std::string to_text(const Instruction& instruction) {
    const Kind kind = instruction.kind;
    std::string text{word_of(kind)};
    if (is_compute(kind) || is_wire(kind)) {
        text += std::to_string(instruction.stage.value()) + ":" +
                std::to_string(instruction.microbatch.value());
    } else if (is_sum(kind)) {
        text += std::to_string(instruction.stage.value()) + ":" +
                std::to_string(instruction.lanes.first) + "-" +
                std::to_string(instruction.lanes.last - 1);
    }
    if (instruction.peer) {
        text += (is_send(kind) ? ">" : "<") + std::to_string(instruction.peer->value());
    }
    return text;
}

}  // namespace rhizome::schedule
