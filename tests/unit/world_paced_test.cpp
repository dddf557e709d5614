// A paced world on the world inside one process, whose own links take no time: what arrives when is
// the described links' doing alone.
#include "world/paced_world.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "unit/world_fake.hpp"
#include "world/fake_world.hpp"

namespace rhizome::world {
namespace {

using namespace std::chrono_literals;

constexpr LinkPace links{.latency_s = 500e-6, .bytes_per_s = 1e6};
using Message = std::array<std::byte, 1000>;  // a millisecond

/// Runs the body of each worker on paced links.
std::vector<FakeOutcome> run(std::int32_t workers, const std::function<void(World&)>& body,
                             const LinkPace& pace = links,
                             const std::vector<FakeKill>& kills = {}) {
    auto outcomes = run_fake_world({.workers = workers,
                                    .latency_min = 0ns,
                                    .latency_max = 0ns,
                                    .detection_max = 0ns,
                                    .kills = kills},
                                   [&](World& inner) { body(*make_paced_world(inner, pace)); });
    for (const FakeOutcome& outcome : outcomes) {
        if (outcome.error) std::rethrow_exception(outcome.error);
    }
    return outcomes;
}

CommStatus wait(World& world, Ticket ticket) { return wait_all(world, {&ticket, 1}, 1s); }

TEST(PacedWorld, AMessageTakesItsSizeByTheRateAndTheLatency) {
    run(2, [](World& world) {
        Message message{};
        if (world.self() == WorkerId{0}) {
            EXPECT_EQ(wait(world, world.send(WorkerId{1}, Tag{0}, message)), CommStatus::ok);
        } else {
            EXPECT_EQ(wait(world, world.receive(WorkerId{0}, Tag{0}, message)), CommStatus::ok);
        }
        EXPECT_EQ(world.clock().now(), 1500us);
    });
}

TEST(PacedWorld, WithoutARateAMessageTakesTheLatency) {
    run(2,
        [](World& world) {
            Message message{};
            if (world.self() == WorkerId{0}) {
                EXPECT_EQ(wait(world, world.send(WorkerId{1}, Tag{0}, message)), CommStatus::ok);
            } else {
                EXPECT_EQ(wait(world, world.receive(WorkerId{0}, Tag{0}, message)), CommStatus::ok);
            }
            EXPECT_EQ(world.clock().now(), 500us);
        },
        {.latency_s = 500e-6});
}

TEST(PacedWorld, MessagesOfALinkFollowOneAnother) {
    run(2, [](World& world) {
        std::array<Message, 3> messages{};
        if (world.self() == WorkerId{0}) {
            std::vector<Ticket> tickets;
            for (std::size_t i = 0; i < 3; ++i) {
                messages[i].fill(std::byte(i));
                tickets.push_back(world.send(WorkerId{1}, Tag{0}, messages[i]));
            }
            EXPECT_EQ(wait_all(world, tickets, 1s), CommStatus::ok);
            return;
        }
        std::vector<Ticket> tickets;
        for (Message& message : messages) {
            tickets.push_back(world.receive(WorkerId{0}, Tag{0}, message));
        }
        for (std::size_t i = 0; i < 3; ++i) {
            EXPECT_EQ(wait(world, tickets[i]), CommStatus::ok);
            EXPECT_EQ(world.clock().now(), 1500us + i * 1ms);
            EXPECT_EQ(messages[i].front(), std::byte(i));
        }
    });
}

TEST(PacedWorld, AnIdleLinkTakesTheNextMessageAtOnce) {
    run(2, [](World& world) {
        Message message{};
        for (const Nanoseconds begin : {0us, 10'000us}) {
            while (world.clock().now() < begin) world.rest(begin);
            if (world.self() == WorkerId{0}) {
                EXPECT_EQ(wait(world, world.send(WorkerId{1}, Tag{0}, message)), CommStatus::ok);
            } else {
                EXPECT_EQ(wait(world, world.receive(WorkerId{0}, Tag{0}, message)), CommStatus::ok);
            }
            EXPECT_EQ(world.clock().now(), begin + 1500us);
        }
    });
}

TEST(PacedWorld, LinksToTwoPeersAndBothDirectionsOfOneAreIndependent) {
    run(3, [](World& world) {
        Message out{};
        Message in{};
        if (world.self() == WorkerId{0}) {
            const std::vector<Ticket> tickets{world.send(WorkerId{1}, Tag{0}, out),
                                              world.send(WorkerId{2}, Tag{0}, out),
                                              world.receive(WorkerId{1}, Tag{0}, in)};
            EXPECT_EQ(wait_all(world, tickets, 1s), CommStatus::ok);
        } else {
            std::vector<Ticket> tickets{world.receive(WorkerId{0}, Tag{0}, in)};
            if (world.self() == WorkerId{1})
                tickets.push_back(world.send(WorkerId{0}, Tag{0}, out));
            EXPECT_EQ(wait_all(world, tickets, 1s), CommStatus::ok);
        }
        EXPECT_EQ(world.clock().now(), 1500us);
    });
}

TEST(PacedWorld, ASendIsUnderWayUntilItHasArrived) {
    run(2, [](World& world) {
        Message message{};
        if (world.self() == WorkerId{1}) {
            EXPECT_EQ(wait(world, world.receive(WorkerId{0}, Tag{0}, message)), CommStatus::ok);
            EXPECT_EQ(message[7], std::byte{5});
            return;
        }
        const Ticket ticket = world.send(WorkerId{1}, Tag{0}, message);
        message[7] = std::byte{5};  // whoever sends early is found out
        world.rest(1499us);
        EXPECT_EQ(world.poll(ticket), std::nullopt);
        EXPECT_EQ(wait(world, ticket), CommStatus::ok);
        EXPECT_EQ(world.clock().now(), 1500us);
    });
}

TEST(PacedWorld, AnAgreementComesAfterWhatWasSentBeforeIt) {
    run(2, [](World& world) {
        Message message{};
        const bool sends = world.self() == WorkerId{0};
        const Ticket ticket = sends ? world.send(WorkerId{1}, Tag{0}, message)
                                    : world.receive(WorkerId{0}, Tag{0}, message);
        const Agreement agreement = world.agree(sends ? 6 : 3, 1s);
        EXPECT_EQ(agreement.status, CommStatus::ok);
        EXPECT_EQ(agreement.flags, 2U);
        EXPECT_EQ(world.clock().now(), 1500us);
        EXPECT_EQ(wait(world, ticket), CommStatus::ok);
        EXPECT_EQ(world.clock().now(), 1500us);
    });
}

TEST(PacedWorld, ARevocationEndsMessagesThatWait) {
    run(2, [](World& world) {
        Message message{};
        const bool sends = world.self() == WorkerId{0};
        const Ticket ticket = sends ? world.send(WorkerId{1}, Tag{0}, message)
                                    : world.receive(WorkerId{0}, Tag{0}, message);
        if (sends) {
            world.rest(200us);
            world.revoke();
        }
        EXPECT_EQ(wait(world, ticket), CommStatus::revoked);
        EXPECT_EQ(world.clock().now(), 200us);
        EXPECT_EQ(wait(world, world.receive(WorkerId{1 - world.self().value()}, Tag{1}, message)),
                  CommStatus::revoked);
        // Nothing that waits may hold up what the members still have to agree on.
        EXPECT_EQ(world.agree(1, 1s).status, CommStatus::ok);
        EXPECT_EQ(world.clock().now(), 200us);
    });
}

TEST(PacedWorld, ARevocationBySomebodyElseEndsMessagesThatWait) {
    run(2, [](World& world) {
        Message message{};
        if (world.self() == WorkerId{1}) {
            world.rest(200us);
            world.revoke();
            EXPECT_EQ(world.agree(1, 1s).status, CommStatus::ok);
            return;
        }
        EXPECT_EQ(wait(world, world.send(WorkerId{1}, Tag{0}, message)), CommStatus::revoked);
        EXPECT_LE(world.clock().now(), 1500us);
        EXPECT_EQ(world.agree(1, 1s).status, CommStatus::ok);
    });
}

TEST(PacedWorld, DeadlinesHoldWhileMessagesWait) {
    run(2, [](World& world) {
        Message message{};
        if (world.self() == WorkerId{1}) {
            while (world.clock().now() < 50ms) world.rest(50ms);
            return;
        }
        const Ticket ticket = world.send(WorkerId{1}, Tag{0}, message);
        EXPECT_EQ(wait_all(world, {&ticket, 1}, 700us), CommStatus::timed_out);
        EXPECT_EQ(world.clock().now(), 700us);
        EXPECT_EQ(world.agree(1, 900us).status, CommStatus::timed_out);
        EXPECT_EQ(world.clock().now(), 900us);
    });
}

TEST(PacedWorld, AMessageToALostPeerEndsWithItsLoss) {
    run(2,
        [](World& world) {
            Message message{};
            if (world.self() == WorkerId{1}) {
                world.rest(1s);
                world.rest(1s);
                return;
            }
            EXPECT_EQ(wait(world, world.receive(WorkerId{1}, Tag{0}, message)),
                      CommStatus::peer_lost);
            EXPECT_EQ(wait(world, world.send(WorkerId{1}, Tag{0}, message)), CommStatus::peer_lost);
        },
        links, {{.worker = WorkerId{1}, .call = 0, .after = 100us}});
}

TEST(PacedWorld, TicketsAreUsedAgainWithoutMixingMessagesUp) {
    run(2, [](World& world) {
        const WorkerId other{1 - world.self().value()};
        for (std::int32_t i = 0; i < 20; ++i) {
            const std::int32_t out = 100 * world.self().value() + i;
            std::int32_t in = -1;
            const std::vector<Ticket> tickets{receive(world, other, i % 3, in),
                                              send(world, other, i % 3, out)};
            ASSERT_EQ(wait_all(world, tickets, 1s), CommStatus::ok);
            EXPECT_EQ(in, 100 * other.value() + i);
            EXPECT_LT(std::max(tickets[0], tickets[1]).value(), 2);
        }
    });
}

}  // namespace
}  // namespace rhizome::world
