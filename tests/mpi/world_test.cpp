// world_test CASE FOLDER [SEED]: one rank of one case of world_test.py, which judges by what the
// ranks leave in FOLDER: `saw.RANK` has what a rank learned, `victim.RANK` the process id of one
// that was about to die or to be stopped. Exit codes say nothing here.
//
// A rank that came to its end stays until all who should live have come to theirs, so that nobody
// takes a leaving rank for a loss.
#include <mpi.h>
// mpi-ext.h needs mpi.h first.
#include <mpi-ext.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "world/mpi_world.hpp"

using namespace rhizome;
using namespace rhizome::world;
using namespace std::chrono_literals;

namespace {

int communicators_made = 0;  // by this process

constexpr Nanoseconds far = 20s;
constexpr std::uint32_t all_bits = 0xffffffff;

const char* name_of(CommStatus status) {
    switch (status) {
        case CommStatus::ok:
            return "ok";
        case CommStatus::peer_lost:
            return "peer_lost";
        case CommStatus::revoked:
            return "revoked";
        case CommStatus::timed_out:
            return "timed_out";
    }
    return "?";
}

/// Nobody sees half of it.
void write_whole(const std::filesystem::path& path, const std::string& text) {
    const std::filesystem::path half = path.string() + ".part." + std::to_string(::getpid());
    std::ofstream{half} << text << '\n';
    std::filesystem::rename(half, path);
}

/// One rank and what it has to tell.
class Rank {
  public:
    Rank(World& its_world, std::filesystem::path folder, std::uint64_t its_seed)
        : world{its_world},
          self{its_world.self().value()},
          seed{its_seed},
          folder_{std::move(folder)} {}

    World& world;
    const std::int32_t self;
    const std::uint64_t seed;

    [[nodiscard]] std::int32_t ranks() const {
        return static_cast<std::int32_t>(world.members().size());
    }
    [[nodiscard]] Nanoseconds in(Nanoseconds time) const { return world.clock().now() + time; }

    template <class... Words>
    void saw(const Words&... words) {
        (note(words), ...);
    }

    [[nodiscard]] CommStatus wait(Ticket ticket, Nanoseconds at_most = far) {
        return wait_all(world, {&ticket, 1}, in(at_most));
    }
    [[nodiscard]] Ticket send(std::int32_t to, std::span<const std::byte> bytes,
                              std::int32_t tag = 1) {
        return world.send(WorkerId{to}, Tag{tag}, bytes);
    }
    [[nodiscard]] Ticket receive(std::int32_t from, std::span<std::byte> bytes,
                                 std::int32_t tag = 1) {
        return world.receive(WorkerId{from}, Tag{tag}, bytes);
    }

    void write(const std::string& name, const std::string& text) const {
        write_whole(folder_ / name, text);
    }
    [[nodiscard]] bool has(const std::string& name) const {
        return std::filesystem::exists(folder_ / name);
    }
    /// Moves messages along until that file is there.
    void until(const std::string& name) {
        const Nanoseconds deadline = in(far);
        while (!has(name) && world.clock().now() < deadline) world.rest(in(1ms));
    }

    /// Moves messages along for as many looks as the seed says, and then not until the file is
    /// there.
    void begin_and_stand_still_until(const std::string& name) {
        for (std::uint64_t look = 0; look < seed % 1000; ++look) world.rest(in(0s));
        write("begun." + std::to_string(self), "");
        const Nanoseconds deadline = in(far);
        while (!has(name) && world.clock().now() < deadline) std::this_thread::yield();
    }

    void note_victim() const {
        write("victim." + std::to_string(self), std::to_string(::getpid()));
    }
    [[noreturn]] void die() const {
        note_victim();
        (void)std::raise(SIGKILL);
        std::abort();
    }
    /// The end of a rank that lives, as all do who are not named.
    [[noreturn]] void leave(const std::vector<std::int32_t>& dead = {}) {
        write("saw." + std::to_string(self), text_.str());
        for (std::int32_t peer = 0; peer < ranks(); ++peer) {
            if (std::ranges::find(dead, peer) == dead.end()) until("saw." + std::to_string(peer));
        }
        leave_mpi(ExitCode::done);
    }

  private:
    template <class Word>
    void note(const Word& word) {
        text_ << word << ' ';
    }
    void note(CommStatus status) { note(name_of(status)); }
    void note(const Agreement& agreement) { saw(agreement.status, agreement.flags); }

    std::filesystem::path folder_;
    std::ostringstream text_;
};

std::vector<std::byte> bytes_of(std::size_t size, std::uint64_t seed) {
    std::vector<std::byte> bytes(size);
    std::uint64_t state = seed * 0x9e3779b97f4a7c15U + 1;
    for (std::byte& byte : bytes) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        byte = static_cast<std::byte>(state >> 56U);
    }
    return bytes;
}

// ---------------------------------------------------------------- nobody is lost

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

// ---------------------------------------------------------------- somebody is lost

/// Rank 1 dies. Rank 0 waits for it; rank 2 has not talked to it and learns when it does.
void receive_from_dead(Rank& rank) {
    std::vector<std::byte> bytes(1000);
    if (rank.self == 1) rank.die();
    if (rank.self == 0) rank.saw(rank.wait(rank.receive(1, bytes)));
    if (rank.self == 2) {
        rank.until("saw.0");
        rank.saw(rank.wait(rank.receive(1, bytes)));
    }
    rank.saw(rank.wait(rank.receive(1, bytes, 2)));
    rank.saw(rank.wait(rank.send(1, bytes, 3)));
    rank.leave({1});
}

/// Rank 1 dies while large messages go both ways between it and the others: the first pieces of
/// them may be there, not begun, or anything between.
void die_in_transfer(Rank& rank) {
    std::vector<std::byte> out(64 << 20);
    std::vector<std::byte> in(out.size());
    if (rank.self == 1) {
        std::vector<std::byte> in_2(out.size());
        (void)rank.send(0, out);
        (void)rank.send(2, out);
        (void)rank.receive(0, in);
        (void)rank.receive(2, in_2);
        rank.until("begun.0");
        rank.until("begun.2");
        rank.die();
    }
    const std::array tickets{rank.receive(1, in), rank.send(1, out)};
    rank.begin_and_stand_still_until("victim.1");
    rank.saw(rank.wait(tickets[0]), rank.wait(tickets[1]));
    rank.leave({1});
}

/// Rank 0 waits for rank 1, who waits for rank 0, and rank 3 has nothing to do. Rank 2 gives up.
void revoke(Rank& rank) {
    std::vector<std::byte> bytes(1000);
    if (rank.self < 2) {
        const Ticket ticket = rank.receive(1 - rank.self, bytes);
        rank.write("waits." + std::to_string(rank.self), "");
        rank.saw(rank.wait(ticket));
        rank.world.revoke();
    } else if (rank.self == 2) {
        rank.until("waits.0");
        rank.until("waits.1");
        rank.world.revoke();
        rank.world.revoke();
        rank.saw(CommStatus::revoked);
    } else {
        rank.world.rest(rank.in(far));
        rank.saw(rank.wait(rank.receive(0, bytes)));
    }
    const std::int32_t next = (rank.self + 1) % rank.ranks();
    rank.saw(rank.wait(rank.send(next, bytes, 5)), rank.wait(rank.receive(next, bytes, 5)));
    rank.saw(rank.world.agree(all_bits - (1U << rank.self), rank.in(far)));
    rank.saw(rank.world.agree(1, rank.in(far)));
    rank.leave();
}

/// The epoch ends while large messages are on their way between two who live: each end comes, and
/// what has ended well has the right bytes.
void revoke_in_transfer(Rank& rank) {
    if (rank.self == 2) {
        rank.until("begun.0");
        rank.until("begun.1");
        rank.world.revoke();
        rank.write("revoked", "");
        rank.saw("fine");
    } else {
        const std::vector<std::byte> out = bytes_of(64 << 20, 1);
        std::vector<std::byte> in(out.size());
        const std::int32_t peer = 1 - rank.self;
        const std::array tickets{rank.receive(peer, in), rank.send(peer, out)};
        rank.begin_and_stand_still_until("revoked");
        const std::array ends{rank.wait(tickets[0]), rank.wait(tickets[1])};
        const bool fine = std::ranges::all_of(ends, [](CommStatus end) {
            return end == CommStatus::ok || end == CommStatus::revoked;
        });
        rank.saw(fine && (ends[0] != CommStatus::ok || in == out) ? "fine" : "wrong");
        std::fprintf(stderr, "rank %d: received %s, sent %s\n", rank.self, name_of(ends[0]),
                     name_of(ends[1]));
    }
    rank.saw(rank.world.agree(1, rank.in(far)));
    rank.leave();
}

/// Rank 1 dies before it gives its flags. All later agreements say the same, nobody having taken
/// note of the loss, and those who live can still talk.
void die_before_agreement(Rank& rank) {
    if (rank.self == 1) rank.die();
    rank.saw(rank.world.agree(all_bits - (1U << rank.self), rank.in(far)));
    rank.saw(rank.world.agree(3, rank.in(far)));
    std::vector<std::byte> bytes(1000);
    if (rank.self == 0) rank.saw(rank.wait(rank.send(2, bytes)));
    if (rank.self == 2) rank.saw(rank.wait(rank.receive(0, bytes)));
    (void)rank.world.agree(0, rank.in(far));  // lest one revoke before the other has received
    rank.world.revoke();
    rank.saw(rank.world.agree(6, rank.in(far)));
    rank.leave({1});
}

/// Rank 1 gives its flags and dies while the others have not given theirs.
void die_in_agreement(Rank& rank) {
    if (rank.self == 1) {
        const Agreement agreement = rank.world.agree(0b0111, rank.in(20ms));
        if (agreement.status == CommStatus::timed_out) rank.die();
        rank.saw("too soon", agreement);
        rank.leave();
    }
    rank.until("victim.1");
    rank.saw(rank.world.agree(rank.self == 0 ? 0b1111 : 0b1110, rank.in(far)));
    rank.saw(rank.world.agree(1, rank.in(far)));
    rank.leave({1});
}

/// A ring and an agreement per turn until rank 1 is killed, at any moment of any call. Whoever sees
/// it revokes and agrees; all who live then know the same.
void any_moment(Rank& rank) {
    const std::int32_t victim = static_cast<std::int32_t>(rank.seed) % rank.ranks();
    if (rank.self == victim) {
        rank.note_victim();
        std::mt19937_64 random{rank.seed};
        sigevent event{};
        event.sigev_notify = SIGEV_SIGNAL;
        event.sigev_signo = SIGKILL;
        timer_t timer{};
        timer_create(CLOCK_MONOTONIC, &event, &timer);
        itimerspec when{};
        when.it_value.tv_nsec = static_cast<long>(1 + random() % 30'000'000);
        timer_settime(timer, 0, &when, nullptr);
    }
    const auto size = std::size_t{1} << (rank.seed % 3 * 10);
    const std::vector<std::byte> out(size);
    std::vector<std::byte> in(size);
    for (std::uint32_t turn = 0;; ++turn) {
        const std::int32_t next = (rank.self + 1) % rank.ranks();
        const std::int32_t before = (rank.self + rank.ranks() - 1) % rank.ranks();
        const std::array tickets{rank.receive(before, in), rank.send(next, out)};
        const CommStatus status = wait_all(rank.world, tickets, rank.in(far));
        if (status != CommStatus::ok) rank.world.revoke();
        const Agreement agreement =
            rank.world.agree(2 * turn + (status == CommStatus::ok ? 1 : 0), rank.in(far));
        if (agreement.status == CommStatus::ok && (agreement.flags & 1U) != 0) continue;
        // A loss that one rank saw and that no agreement has met yet will be met by the next one.
        if (agreement.status == CommStatus::ok) {
            rank.saw("ok", agreement.flags, rank.world.agree(0, rank.in(far)).flags);
        } else {
            rank.saw(agreement);
        }
        if (status == CommStatus::timed_out) rank.saw("late");
        rank.leave({victim});
    }
}

/// Rank 1 is stopped: nobody is told, and only deadlines help.
void stopped(Rank& rank) {
    if (rank.self == 1) {
        rank.note_victim();
        (void)std::raise(SIGSTOP);
    }
    std::vector<std::byte> bytes(1000);
    rank.until("victim.1");
    rank.saw(rank.wait(rank.receive(1, bytes), 100ms));
    const Nanoseconds start = rank.world.clock().now();
    rank.saw(name_of(rank.world.agree(1, start + 200ms).status));
    const Nanoseconds passed = rank.world.clock().now() - start;
    rank.saw(passed >= 200ms && passed < 5s ? "in time" : "late");
    rank.leave({1});
}

/// Rank 1 dies, and then rank 3. Each time those who live open an epoch and talk in it, and nobody
/// makes a communicator for that: a loss that is noticed meanwhile would crash Open MPI.
void epochs(Rank& rank) {
    const int made_before = communicators_made;
    std::vector<std::int32_t> dead;
    for (const std::int32_t victim : {1, 3}) {
        if (rank.self == victim) rank.die();
        rank.saw(rank.world.agree(1, rank.in(far)).status);
        rank.world.revoke();
        rank.saw(rank.world.open_epoch(rank.in(far)));
        rank.saw("epoch", rank.world.epoch().value(), "of");
        for (const WorkerId member : rank.world.members()) rank.saw(member.value());
        const std::byte out{static_cast<unsigned char>(victim)};
        std::byte in{};
        if (rank.self == 0) (void)rank.wait(rank.send(4, {&out, 1}));
        if (rank.self == 4) (void)rank.wait(rank.receive(0, {&in, 1}));
        if (rank.self == 4 && in != out) rank.saw("wrong");
        dead.push_back(victim);
        rank.saw(rank.world.agree(1, rank.in(far)).status);
    }
    rank.saw("made", communicators_made - made_before);
    rank.leave(dead);
}

/// What a rank is told that was started without fault tolerance.
void no_fault_tolerance(const std::filesystem::path& folder) {
    Pulse pulse;
    std::string told = "nothing";
    try {
        (void)make_mpi_world({.pulse = pulse});
    } catch (const ConfigError& error) {
        told = error.what();
    }
    write_whole(folder / "saw.0", told);
    leave_mpi(ExitCode::bad_config);
}

using Case = void (*)(Rank&);
const std::map<std::string, Case>& cases() {
    static const std::map<std::string, Case> all{
        {"messages", messages},
        {"agreements", agreements},
        {"rest", rest},
        {"sigpipe", sigpipe},
        {"receive_from_dead", receive_from_dead},
        {"die_in_transfer", die_in_transfer},
        {"revoke", revoke},
        {"revoke_in_transfer", revoke_in_transfer},
        {"die_before_agreement", die_before_agreement},
        {"die_in_agreement", die_in_agreement},
        {"any_moment", any_moment},
        {"stopped", stopped},
        {"epochs", epochs},
    };
    return all;
}

}  // namespace

// Instead of MPI's own, for all of this program.
extern "C" {
int MPI_Comm_dup(MPI_Comm of, MPI_Comm* made) {
    ++communicators_made;
    return PMPI_Comm_dup(of, made);
}
int MPI_Comm_split(MPI_Comm of, int color, int key, MPI_Comm* made) {
    ++communicators_made;
    return PMPI_Comm_split(of, color, key, made);
}
int MPI_Comm_create(MPI_Comm of, MPI_Group group, MPI_Comm* made) {
    ++communicators_made;
    return PMPI_Comm_create(of, group, made);
}
int MPI_Comm_create_group(MPI_Comm of, MPI_Group group, int tag, MPI_Comm* made) {
    ++communicators_made;
    return PMPI_Comm_create_group(of, group, tag, made);
}
int MPIX_Comm_shrink(MPI_Comm of, MPI_Comm* made) {
    ++communicators_made;
    return PMPIX_Comm_shrink(of, made);
}
}

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: world_test CASE FOLDER [SEED]\n");
        return 2;
    }
    const std::string name = argv[1];
    if (name == "no_fault_tolerance") no_fault_tolerance(argv[2]);
    try {
        Pulse pulse;
        const auto world = make_mpi_world({.pulse = pulse, .piece_bytes = 100'000});
        Rank rank{*world, argv[2], argc > 3 ? std::stoull(argv[3]) : 0};
        cases().at(name)(rank);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "world_test: %s: %s\n", name.c_str(), error.what());
    }
    leave_mpi(ExitCode::our_fault);
}
