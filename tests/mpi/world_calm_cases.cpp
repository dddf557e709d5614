// Cases of world_test.py in which nobody is lost.
#include <signal.h>

#include <array>
#include <random>

#include "world_rank.hpp"

namespace rhizome::world {
namespace {

/// Everything at once between all pairs, in an order of its own on each side except within a tag;
/// above and below the limit up to which Open MPI sends eagerly, and across several pieces.
void messages(Rank& rank) {
    constexpr std::int32_t count = 24;
    constexpr std::array tags{0, 1, 77, World::tag_max};
    constexpr std::array<std::size_t, 8> sizes{0,      1,      1000,    65'400,
                                               65'536, 70'000, 500'001, 3 << 20};
    struct Message {
        std::int32_t peer;
        std::int32_t tag;
        std::vector<std::byte> bytes;
        bool is_send;
    };
    std::vector<Message> plan;
    const auto add = [&](std::int32_t from, std::int32_t to) {
        std::mt19937 random{static_cast<unsigned>(1000 * from + to)};
        for (std::int32_t i = 0; i < count; ++i) {
            const std::int32_t tag = tags[random() % tags.size()];
            const auto seed = static_cast<std::uint64_t>(100 * (100 * from + to) + i);
            auto bytes = bytes_of(sizes[random() % sizes.size()], seed);
            const bool is_send = from == rank.self;
            plan.push_back({is_send ? to : from, tag, std::move(bytes), is_send});
        }
    };
    for (std::int32_t peer = 0; peer < rank.ranks(); ++peer) {
        if (peer == rank.self) continue;
        add(rank.self, peer);
        add(peer, rank.self);
    }
    // Channels in turn by chance; within one, in order.
    std::map<std::tuple<bool, std::int32_t, std::int32_t>, std::vector<std::size_t>> channels;
    for (std::size_t i = plan.size(); i-- > 0;) {
        channels[{plan[i].is_send, plan[i].peer, plan[i].tag}].push_back(i);
    }
    std::mt19937 random{static_cast<unsigned>(rank.self)};
    std::vector<Ticket> tickets;
    std::map<std::size_t, std::vector<std::byte>> received;
    while (!channels.empty()) {
        auto channel = channels.begin();
        std::advance(channel, static_cast<std::ptrdiff_t>(random() % channels.size()));
        const std::size_t index = channel->second.back();
        channel->second.pop_back();
        if (channel->second.empty()) channels.erase(channel);
        const Message& message = plan[index];
        if (message.is_send) {
            tickets.push_back(rank.send(message.peer, message.bytes, message.tag));
        } else {
            auto& bytes = received[index];
            bytes.resize(message.bytes.size());
            tickets.push_back(rank.receive(message.peer, bytes, message.tag));
        }
        if (random() % 8 == 0) rank.world.rest(rank.in(0s));
    }
    rank.saw(wait_all(rank.world, tickets, rank.in(far)));
    std::size_t wrong = 0;
    for (const auto& [index, bytes] : received) wrong += bytes != plan[index].bytes ? 1 : 0;
    rank.saw(received.size(), wrong);

    // Slots are used again: there are never more than at first, however many messages follow.
    std::int32_t highest = 0;
    std::byte byte{};
    for (int turn = 0; turn < 1000; ++turn) {
        const std::int32_t next = (rank.self + 1) % rank.ranks();
        const std::int32_t before = (rank.self + rank.ranks() - 1) % rank.ranks();
        const std::byte mine{7};
        const std::array ring{rank.receive(before, {&byte, 1}), rank.send(next, {&mine, 1})};
        if (wait_all(rank.world, ring, rank.in(far)) != CommStatus::ok) rank.saw("broken");
        highest = std::max({highest, ring[0].value(), ring[1].value()});
    }
    rank.saw(static_cast<std::size_t>(highest) < tickets.size() ? "reused" : "grows");
    rank.leave();
}

void agreements(Rank& rank) {
    std::size_t wrong = 0;
    for (unsigned turn = 0; turn < 300; ++turn) {
        std::uint32_t expected = all_bits;
        std::uint32_t mine = 0;
        for (std::int32_t peer = 0; peer < rank.ranks(); ++peer) {
            std::mt19937 random{turn * 64 + static_cast<unsigned>(peer)};
            const auto flags = static_cast<std::uint32_t>(random() | random() | random());
            expected &= flags;
            if (peer == rank.self) mine = flags;
        }
        const Agreement agreement = rank.world.agree(mine, rank.in(far));
        if (agreement.status != CommStatus::ok || agreement.flags != expected) ++wrong;
    }
    rank.saw("wrong", wrong);
    rank.saw(rank.world.agree(all_bits, rank.in(far)));
    rank.leave();
}

/// What a rank gets that writes to one who has just died.
void sigpipe(Rank& rank) {
    (void)std::raise(SIGPIPE);
    rank.saw(rank.world.agree(all_bits, rank.in(far)));
    rank.leave();
}

/// Nothing comes; time passes, and not much more than it should.
void rest(Rank& rank) {
    const Nanoseconds start = rank.world.clock().now();
    rank.world.rest(start + 50ms);
    rank.world.rest(start);
    const Nanoseconds passed = rank.world.clock().now() - start;
    rank.saw(passed >= 50ms && passed < 5s ? "rested" : "wrong");

    // A message that has ended and that nobody asks about wakes once, and then lets rest.
    std::byte byte{};
    const std::byte mine{};
    const std::int32_t peer = 1 - rank.self;
    const Ticket in = rank.receive(peer, {&byte, 1});
    const Ticket out = rank.send(peer, {&mine, 1});
    int woken = 0;
    const Nanoseconds deadline = rank.in(200ms);
    while (rank.world.clock().now() < deadline) {
        rank.world.rest(deadline);
        ++woken;
    }
    rank.saw(woken <= 3 ? "calm" : "restless", rank.wait(in) == CommStatus::ok,
             rank.wait(out) == CommStatus::ok);
    rank.leave();
}

}  // namespace

std::map<std::string, Case> calm_cases() {
    return {
        {"messages", messages},
        {"agreements", agreements},
        {"rest", rest},
        {"sigpipe", sigpipe},
    };
}

}  // namespace rhizome::world
