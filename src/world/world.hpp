// Who is here and how to reach them. An interface without MPI types, so that the engine runs just
// as well on a world inside one process, where any loss can happen at any point, thousands of
// times.
//
// A lost peer, a revoked epoch and a missed deadline are values (CommStatus), never exceptions.
// After the first status that is not ok the epoch is over: whoever sees one calls revoke(), so that
// those learn of it who wait for somebody alive, takes part in the agreement that the others come
// to, asks poll() about what it has under way until all has ended, and opens the next epoch.
//
// A world is used by the one thread that made it. Nothing here waits without a deadline, and a
// destructor waits for nobody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/ids.hpp"

namespace rhizome::world {

/// Tells apart messages between the same two workers. Those with one tag arrive in the order in
/// which they were sent; so do empty ones.
using Tag = Id<struct MessageTag>;

/// A message under way, until poll() has said how it ended. Means nothing to another world or
/// epoch.
using Ticket = Id<struct MessageTicket>;

/// How an agreement ended. All who learn of it learn the same, whoever dies meanwhile: flags and
/// ok or peer_lost.
struct Agreement {
    /// ok: every member gave its flags. peer_lost: somebody died (who may have given its flags or
    /// not). timed_out is this worker's alone: the others may have come to an end.
    CommStatus status;
    /// AND of what all who lived to the end gave, and maybe some of the dead; not if timed_out.
    std::uint32_t flags;
};

class World {
  public:
    static constexpr std::int32_t tag_max = (1 << 30) - 1;

    virtual ~World() = default;
    World() = default;
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    [[nodiscard]] virtual WorkerId self() const = 0;
    /// Of this epoch, ascending, this worker included.
    [[nodiscard]] virtual const std::vector<WorkerId>& members() const = 0;
    /// The clock of deadlines.
    [[nodiscard]] virtual const Clock& clock() const = 0;

    /// Begins a message to or from another member. The bytes must stay in place, those of a send
    /// unchanged, until the ticket has ended. A receive is for exactly as many bytes as are sent;
    /// another size is our mistake and ends the process. Never blocks.
    [[nodiscard]] virtual Ticket send(WorkerId to, Tag tag, std::span<const std::byte> bytes) = 0;
    [[nodiscard]] virtual Ticket receive(WorkerId from, Tag tag, std::span<std::byte> bytes) = 0;

    /// Moves messages along. How this one ended, once: then the ticket is free for another message.
    /// A send has ended when its bytes may be written again, whether or not they have arrived.
    /// Nothing while it is under way. Never blocks.
    [[nodiscard]] virtual std::optional<CommStatus> poll(Ticket ticket) = 0;

    /// Lets time pass for a worker that has nothing to do: moves messages along and returns when
    /// one of its own has ended, or the epoch has, or at `until` at the latest. May return early.
    virtual void rest(Nanoseconds until) = 0;

    /// All members give their flags and learn the AND of them, or that somebody is missing. Every
    /// member must come to the same agreements in the same order. A revoked epoch still agrees, so
    /// whoever gives up gives flags that say so and all learn what the end was.
    [[nodiscard]] virtual Agreement agree(std::uint32_t flags, Nanoseconds deadline) = 0;

    /// Ends the epoch's messages for all members, elsewhere a little later: those begun from then
    /// on end with `revoked`, those under way with that, with `peer_lost` or with ok. The bytes of
    /// one that is under way belong to it until poll() has said how it ended. Never blocks.
    virtual void revoke() = 0;

    /// Which membership this is, counted from 0.
    [[nodiscard]] virtual Epoch epoch() const = 0;

    /// Opens the next epoch: all members who live agree on who they are (who dies in it is in or
    /// out, the same for all), and go on as if nothing had been sent or revoked. Every member that
    /// lives must come to it, having been in the same agreements, with nothing under way. Losses
    /// meanwhile only make it longer.
    ///
    /// ok: members() are those of the new epoch. timed_out: this worker does not know; it can only
    /// leave. revoked: no further epoch can be opened; all members are told so, without meeting.
    [[nodiscard]] virtual CommStatus open_epoch(Nanoseconds deadline) = 0;

    /// Can fewer epochs be opened than a renewal would make possible, and than the members can have
    /// losses? All are told the same.
    [[nodiscard]] virtual bool runs_short() const = 0;

    /// Makes further epochs possible. For a calm moment: a loss meanwhile may take all who are in
    /// it along (docs/MPI.md). All members come to it, having been in the same agreements and
    /// knowing that all come, with nothing under way.
    ///
    /// ok: the epoch goes on, and more can be opened. peer_lost, revoked: the epoch is over, for
    /// all. timed_out: this worker does not know; it can only leave.
    [[nodiscard]] virtual CommStatus renew(Nanoseconds deadline) = 0;
};

/// Does this worker speak for all where one has to?
[[nodiscard]] inline bool is_first(const World& world) {
    return world.self() == world.members().front();
}

/// Waits until all of these have ended; the first status that is not ok ends the wait at once.
[[nodiscard]] CommStatus wait_all(World& world, std::span<const Ticket> tickets,
                                  Nanoseconds deadline);

/// A world of one, without MPI.
[[nodiscard]] std::unique_ptr<World> make_solo_world();

}  // namespace rhizome::world
