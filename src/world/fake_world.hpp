// A world inside one process, for tests: the real engine runs on it by the thousand, and any loss
// happens at any point.
//
// Each worker is a thread, and exactly one of them runs at a time; all chance comes from the seed,
// and time is a number. So a run is a function of its configuration and body: the same turns, times
// and ends, on any machine. Time stands still while anybody can run. When all wait, it jumps to
// what comes next: an arrival, the end of a rest, a deadline, a death that becomes known. A body
// that computes for a while says so by resting; one that only polls and never rests stops the time.
//
// Workers may share variables without locks: what one wrote before its turn ended the next one
// sees.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <vector>

#include "world/world.hpp"

namespace rhizome::world {

/// Calls of a worker to send, receive, poll, rest, agree, revoke, open_epoch and renew are counted
/// from 0.
/// It dies at the beginning of this one; with `after`, that much later, wherever it then waits (it
/// may have given its flags to an agreement and not learned the outcome).
struct FakeKill {
    WorkerId worker;
    std::int64_t call;
    Nanoseconds after{0};
};

/// From the beginning of this call the worker makes no progress, like after SIGSTOP, and nobody is
/// told. It stays so until a kill with `after` strikes it or all others have ended.
struct FakeStop {
    WorkerId worker;
    std::int64_t call;
};

/// When a send has ended: at once, or when the message has arrived and its receive has been posted.
/// Until then its bytes are read again, so whoever changes them is found out.
enum class FakeSends : std::uint8_t { eager, rendezvous, drawn };

struct FakeWorldConfig {
    std::int32_t workers = 1;
    std::uint64_t seed = 0;

    /// A message follows the one before it on the link from its sender to its receiver, takes its
    /// size divided by the rate (0: no time), and then arrives after a latency drawn for it. Flags,
    /// outcomes and revocations take a latency each.
    Nanoseconds latency_min{1'000};
    Nanoseconds latency_max{20'000};
    double bytes_per_s = 0.0;
    FakeSends sends = FakeSends::drawn;

    std::int32_t spares = 1 << 30;         // epochs that can be opened before a renewal
    std::int32_t renewals_failing = 0;     // so many end `revoked`, with nobody lost
    Nanoseconds detection_max{1'000'000};  // until another worker knows of a death; drawn for each
    double switch_chance = 0.05;  // that a call that need not wait lets another worker run first
    std::vector<FakeKill> kills{};
    std::vector<FakeStop> stops{};
    std::int64_t calls_max = 100'000'000;  // of all together, against a run that never ends
};

enum class FakeEnd : std::uint8_t {
    returned,
    killed,
    stopped,  // and unwound when all others had ended
    threw,    // also when the run got stuck: std::runtime_error with the state of each worker
};

struct FakeOutcome {
    FakeEnd end = FakeEnd::returned;
    std::exception_ptr error;     // what it threw
    std::int64_t calls = 0;       // to its world
    std::int64_t unreceived = 0;  // messages sent to it that no receive took and no loss swallowed
    std::int64_t untold = 0;      // its messages of which poll() had not said how they ended
    Nanoseconds ended_at{0};
};

/// Runs `body` once for each worker, each with its own world of workers 0, 1, ..., and returns when
/// all have ended. A worker that returns or throws is gone for the others, like one that dies; what
/// it sent before it returned still arrives, if the send had ended.
///
/// A killed or stopped worker is unwound from inside its call by an exception of a private type;
/// what destructors still ask of the world does nothing and answers `revoked` or `timed_out`.
///
/// rest() returns at once for each message that has ended since it last returned, so one that
/// nobody asks about does not keep a worker from resting.
[[nodiscard]] std::vector<FakeOutcome> run_fake_world(const FakeWorldConfig& config,
                                                      const std::function<void(World&)>& body);

/// The worker whose world this is dies here and now, in the middle of its own code. `world` must be
/// one that run_fake_world() gave to a body, called from that body.
[[noreturn]] void die_in(World& world);

}  // namespace rhizome::world
