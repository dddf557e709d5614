// The places in a worker's work at which a fault can be made to happen: before each instruction,
// and in each phase of what is no list of instructions. Who wants faults gives the worker a probe;
// without one a place costs a comparison.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "schedule/instruction.hpp"

namespace rhizome::engine {

enum class Phase : std::uint8_t {
    step,        // an instruction of a training step
    evaluation,  // of an evaluation
    save,        // a snapshot is due, or the next phase of a save
    renew,       // further epochs are to be made possible
    renewing,    // all are about to do that
    end,         // what all do together when the training is over
    // of a repair, in their order
    open,    // the epoch has been given up, the next one is not open
    report,  // it is open, nobody has told what it has
    decide,  // all reports are there
    load,    // before a state is loaded (in place of move)
    move,    // before the first move
    agree,   // all that moves is there
    adopt,   // all have agreed
};

inline constexpr std::array phase_names{
    std::string_view{"step"},  std::string_view{"evaluation"}, std::string_view{"save"},
    std::string_view{"renew"}, std::string_view{"renewing"},   std::string_view{"end"},
    std::string_view{"open"},  std::string_view{"report"},     std::string_view{"decide"},
    std::string_view{"load"},  std::string_view{"move"},       std::string_view{"agree"},
    std::string_view{"adopt"}};

struct Point {
    Phase phase;
    std::int32_t step;                     // that is under way, or steps done
    std::optional<schedule::Kind> kind{};  // of the instruction
    std::int32_t index = 0;                // among those of its kind in the list
    friend bool operator==(const Point&, const Point&) = default;
};

/// Called at every place, by the worker's own thread. It may end the process.
using Probe = std::function<void(const Point&)>;

/// "step 12 F#3", "step 12 move"
[[nodiscard]] inline std::string place_text(const Point& point) {
    std::string text = "step " + std::to_string(point.step) + " ";
    if (!point.kind || point.phase != Phase::step) {
        text += phase_names[static_cast<std::size_t>(point.phase)];
        text += point.kind ? " " : "";
    }
    if (!point.kind) return text;
    return text + std::string{schedule::word_of(*point.kind)} + "#" + std::to_string(point.index);
}

}  // namespace rhizome::engine
