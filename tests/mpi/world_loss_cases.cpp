// Cases of world_test.py in which ranks die, are stopped or give up.
#include <mpi.h>
// mpi-ext.h needs mpi.h first.
#include <mpi-ext.h>

#include <random>

#include "world_rank.hpp"

namespace rhizome::world {
namespace {

int communicators_made = 0;  // by this process

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
        std::fprintf(stderr, "rank %d: received %s, sent %s\n", rank.self, name_of(ends[0]).data(),
                     name_of(ends[1]).data());
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

/// At a random moment, whatever the rank does then.
void die_within(const Rank& rank, Nanoseconds time) {
    rank.note_victim();
    std::mt19937_64 random{rank.seed};
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGKILL;
    timer_t timer{};
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    itimerspec when{};
    when.it_value.tv_nsec =
        static_cast<long>(1 + random() % static_cast<std::uint64_t>(time.count()));
    timer_settime(timer, 0, &when, nullptr);
}

/// A ring and an agreement per turn until rank 1 is killed, at any moment of any call. Whoever sees
/// it revokes and agrees; all who live then know the same.
void any_moment(Rank& rank) {
    const std::int32_t victim = static_cast<std::int32_t>(rank.seed) % rank.ranks();
    if (rank.self == victim) die_within(rank, 30ms);
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

/// One after the other dies until two are left, in a world that can open one epoch until it is
/// renewed.
void renewals(Rank& rank) {
    const auto ranks = rank.ranks();
    std::vector<std::int32_t> dead;
    for (const std::int32_t victim : {1, 0, 4}) {
        if (rank.self == victim) rank.die();
        rank.saw(rank.world.agree(1, rank.in(far)).status);
        rank.world.revoke();
        rank.saw(rank.world.open_epoch(rank.in(far)));
        dead.push_back(victim);
        if (!rank.world.runs_short()) rank.saw("not short");
        rank.saw(rank.world.renew(rank.in(far)));
        if (rank.world.runs_short()) rank.saw("still short");
        if (rank.world.members().size() + dead.size() != static_cast<std::size_t>(ranks)) {
            rank.saw("other members");
        }
        const WorkerId first = rank.world.members().front();
        const WorkerId last = rank.world.members().back();
        const std::byte out{static_cast<unsigned char>(victim)};
        std::byte in{};
        if (rank.self == first.value()) (void)rank.wait(rank.send(last.value(), {&out, 1}));
        if (rank.self == last.value()) (void)rank.wait(rank.receive(first.value(), {&in, 1}));
        if (rank.self == last.value() && in != out) rank.saw("wrong");
        rank.saw(rank.world.agree(1, rank.in(far)).status);
    }
    rank.leave(dead);
}

/// Rank 2 dies in a renewal. Open MPI may crash then in others.
void loss_in_renewal(Rank& rank) {
    if (rank.self == 1) rank.die();
    (void)rank.world.agree(1, rank.in(far));
    rank.world.revoke();
    (void)rank.world.open_epoch(rank.in(far));
    (void)rank.world.agree(1, rank.in(far));
    if (rank.self == 2) die_within(rank, 6ms);
    if (rank.world.renew(rank.in(far)) == CommStatus::ok) {
        if (rank.self == 2) rank.until("its death");
        (void)rank.world.agree(1, rank.in(far));
    }
    rank.world.revoke();
    rank.saw(rank.world.open_epoch(rank.in(far)));
    rank.leave({1, 2});
}

}  // namespace

std::map<std::string, Case> loss_cases() {
    return {
        {"receive_from_dead", receive_from_dead},
        {"die_in_transfer", die_in_transfer},
        {"revoke", revoke},
        {"revoke_in_transfer", revoke_in_transfer},
        {"die_before_agreement", die_before_agreement},
        {"die_in_agreement", die_in_agreement},
        {"any_moment", any_moment},
        {"stopped", stopped},
        {"epochs", epochs},
        {"renewals", renewals},
        {"loss_in_renewal", loss_in_renewal},
    };
}

}  // namespace rhizome::world

// Instead of MPI's own, for all of this program.
extern "C" {
int MPI_Comm_dup(MPI_Comm of, MPI_Comm* made) {
    ++rhizome::world::communicators_made;
    return PMPI_Comm_dup(of, made);
}
int MPI_Comm_split(MPI_Comm of, int color, int key, MPI_Comm* made) {
    ++rhizome::world::communicators_made;
    return PMPI_Comm_split(of, color, key, made);
}
int MPI_Comm_create(MPI_Comm of, MPI_Group group, MPI_Comm* made) {
    ++rhizome::world::communicators_made;
    return PMPI_Comm_create(of, group, made);
}
int MPI_Comm_create_group(MPI_Comm of, MPI_Group group, int tag, MPI_Comm* made) {
    ++rhizome::world::communicators_made;
    return PMPI_Comm_create_group(of, group, tag, made);
}
int MPIX_Comm_shrink(MPI_Comm of, MPI_Comm* made) {
    ++rhizome::world::communicators_made;
    return PMPIX_Comm_shrink(of, made);
}
}
