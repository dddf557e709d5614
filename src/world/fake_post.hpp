// The messages of a fake world: links that take time, tickets, and what becomes of messages under
// way when a worker dies or an epoch ends. Invariant: the messages of one tag between two workers
// arrive in order, and where one is lost none of those behind it arrives.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "world/fake_draws.hpp"
#include "world/fake_turns.hpp"
#include "world/fake_world.hpp"

namespace rhizome::world {

/// Why a worker's sends come to an end.
enum class FakeCut : std::uint8_t { returned, killed, threw, revoked };

class FakePost {
  public:
    FakePost(const FakeWorldConfig& config, FakeTurns& turns, FakeDraws& draws);

    [[nodiscard]] Ticket send(WorkerId from, WorkerId to, Tag tag,
                              std::span<const std::byte> bytes);
    [[nodiscard]] Ticket receive(WorkerId from, WorkerId to, Tag tag, std::span<std::byte> bytes);
    [[nodiscard]] std::optional<CommStatus> poll(WorkerId worker, Ticket ticket);

    /// Whether anything has ended for the worker since the last forget_news() of which it was not
    /// told. Wakes it if it rests.
    [[nodiscard]] bool has_news(WorkerId worker) const { return box(worker).news > 0; }
    void forget_news(WorkerId worker);

    /// Its network goes on with what it holds, and nothing moves that needs the worker.
    void stop(WorkerId worker) { box(worker).stopped = true; }
    /// The worker is gone, and its buffers are, or soon will be.
    void leave(WorkerId worker, FakeCut why);
    /// When all that is under way between the two has arrived.
    [[nodiscard]] Nanoseconds last_arrival(WorkerId from, WorkerId to) const {
        return link(from, to).last_arrival;
    }
    /// `observer` learns that `gone` is.
    void lose_peer(WorkerId observer, WorkerId gone);
    /// The worker learns that an epoch, its own or a later one, has been revoked.
    void revoke(WorkerId worker, Epoch epoch);
    /// The worker, with nothing under way, goes on in the next epoch; those who sent it anything in
    /// that one may have gone there before it.
    void open_epoch(WorkerId worker);

    [[nodiscard]] std::int64_t unreceived(WorkerId worker) const;
    [[nodiscard]] std::int64_t untold(WorkerId worker) const;
    [[nodiscard]] std::string describe(WorkerId worker) const;

  private:
    struct Slot {
        enum class State : std::uint8_t { free, under_way, ended } state = State::free;
        CommStatus status = CommStatus::ok;  // when ended
        std::uint64_t round = 0;             // of the box, when it ended
        std::string_view what;               // for reports, with the other worker and the tag
        WorkerId peer{0};
        Tag tag{0};
    };
    /// Of one worker.
    struct Box {
        std::vector<Slot> slots;  // by ticket
        std::vector<Ticket> free;
        std::vector<bool> lost;   // by worker: this one knows that it is gone
        std::uint64_t round = 0;  // how often news were forgotten
        std::int64_t news = 0;
        std::int32_t epoch = 0;
        std::int32_t revoked_epochs = 0;  // all before this one
        bool stopped = false;
        [[nodiscard]] bool revoked() const { return epoch < revoked_epochs; }
    };
    /// What tells messages apart between two workers.
    using Name = std::pair<std::int32_t, Tag>;  // epoch, tag
    struct Message {
        WorkerId from;
        WorkerId to;
        Name name;
        std::span<const std::byte> bytes;  // the sender's until its send has ended, then `copy`
        std::vector<std::byte> copy;
        Nanoseconds arrival;
        std::optional<Ticket> ticket;  // of a send that has not ended
        bool arrived = false;
        bool lost = false;
    };
    struct Receive {
        Ticket ticket;
        std::span<std::byte> bytes;
    };
    struct Channel {
        std::deque<std::shared_ptr<Message>> messages;  // in the order of sending
        std::deque<Receive> receives;
    };
    /// From one worker to another.
    struct Link {
        Nanoseconds free_at{0};
        Nanoseconds last_arrival{0};
        std::map<Name, Channel> channels;  // those with anything in them
    };

    [[nodiscard]] Box& box(WorkerId worker) { return boxes_[worker.index()]; }
    [[nodiscard]] const Box& box(WorkerId worker) const { return boxes_[worker.index()]; }
    [[nodiscard]] Link& link(WorkerId from, WorkerId to) {
        return links_[from.index() * boxes_.size() + to.index()];
    }
    [[nodiscard]] const Link& link(WorkerId from, WorkerId to) const {
        return links_[from.index() * boxes_.size() + to.index()];
    }

    Ticket begin(WorkerId worker, std::string_view what, WorkerId peer, Tag tag);
    void end(WorkerId worker, Ticket ticket, CommStatus status);
    void keep(Message& message);
    void arrive(Message& message);
    void match(WorkerId from, WorkerId to, const Name& name);
    void cut(Channel& channel, FakeCut why);
    [[nodiscard]] bool survives(const Message& message, FakeCut why);

    const FakeWorldConfig& config_;
    FakeTurns& turns_;
    FakeDraws& draws_;
    std::vector<Box> boxes_;   // by worker
    std::vector<Link> links_;  // by sender, by receiver
};

}  // namespace rhizome::world
