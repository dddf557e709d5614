// What a worker does and when, for whoever wants to look at it: turns, instructions, waits and
// transfers as spans of time on the clock of its world. A null pointer instead of a recorder costs
// one comparison per span. Recording changes no result.
//
// What a computation's span means depends on the device. On one that works when it is called
// (reference) it is the time on the host. Where the device knows when it will be done (Event::due,
// as paced does), it is the time on the device, which may be later than that of the spans around
// it; waits then go on beside computations. A device that is asynchronous and does not know shows
// when its work was queued and nothing more, until it tells its times as the paced one does.
//
// A message's end is seen when the worker looks, at the latest between two layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/clock.hpp"
#include "core/ids.hpp"
#include "schedule/instruction.hpp"

namespace rhizome::engine {

/// Invariant: begin <= end.
struct Interval {
    Nanoseconds begin;
    Nanoseconds end;
    friend bool operator==(const Interval&, const Interval&) = default;
};

enum class TurnKind : std::uint8_t { step, evaluation };

/// Why a worker has nothing to do.
enum class Awaited : std::uint8_t {
    message,  // of the peer
    device,   // that it has done what was queued
    buffer,   // that a message has left, so that its memory can be used again
    sends,    // that all messages have left
};

struct Wait {
    Awaited what;
    std::optional<WorkerId> peer{};  // of a message
    friend bool operator==(const Wait&, const Wait&) = default;
};

enum class Direction : std::uint8_t { send, receive };

struct Transfer {
    Direction direction;
    WorkerId peer;
    std::int32_t tag;  // the same at both ends
    std::int64_t bytes;
    friend bool operator==(const Transfer&, const Transfer&) = default;
};

/// Is called by the worker's own thread, about each span when it is over.
class Recorder {
  public:
    virtual ~Recorder() = default;
    Recorder() = default;
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    /// What follows belongs to this turn, until its end. A turn that broke off has none. The step
    /// of an evaluation means nothing.
    virtual void begin_turn(TurnKind kind, Step step) = 0;
    virtual void end_turn(Interval when) = 0;

    /// In the order of the list. Waits before a computation are not part of it; those within what
    /// is no computation are.
    virtual void instruction(const schedule::Instruction& what, Interval when) = 0;
    /// One at a time. Only what had to be waited for.
    virtual void wait(const Wait& what, Interval when) = 0;
    /// From when the network got it until the worker saw that its memory was free, or full.
    virtual void transfer(const Transfer& what, Interval when) = 0;
    /// Anything else: a save, which may have begun in an earlier turn.
    virtual void named(std::string_view name, Interval when) = 0;
};

}  // namespace rhizome::engine
