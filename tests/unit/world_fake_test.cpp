// The fake world with nobody lost: turns, times, links, deadlines, and what it reports.
#include "world/fake_world.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "unit/world_fake.hpp"

namespace rhizome::world {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

/// No chance in the times: 10 us of latency and a byte per nanosecond.
FakeWorldConfig exact_links() {
    return {.workers = 2, .latency_min = 10us, .latency_max = 10us, .bytes_per_s = 1e9};
}

struct Seen {
    std::int32_t worker;
    std::int32_t value;
    Nanoseconds time;
    friend bool operator==(const Seen&, const Seen&) = default;
};

/// Everybody sends to everybody, round after round, and notes what comes when.
std::vector<Seen> trace_of(const FakeWorldConfig& config, std::vector<FakeOutcome>& outcomes) {
    std::vector<Seen> trace;
    outcomes = run_fake_world(config, [&](World& world) {
        for (std::int32_t round = 0; round < 5; ++round) {
            std::vector<std::int32_t> values(world.members().size(), round);
            std::vector<std::int32_t> heard(world.members().size(), -1);
            std::vector<Ticket> tickets;
            for (const WorkerId other : world.members()) {
                if (other == world.self()) continue;
                tickets.push_back(send(world, other, 0, values[other.index()]));
                tickets.push_back(receive(world, other, 0, heard[other.index()]));
            }
            EXPECT_EQ(wait_all(world, tickets, 1h), CommStatus::ok);
            trace.push_back({world.self().value(), heard.front(), world.clock().now()});
        }
        (void)world.agree(1, 1h);
        trace.push_back({world.self().value(), -2, world.clock().now()});
    });
    return trace;
}

TEST(FakeWorld, TheSameSeedGivesTheSameTurnsAndTimes) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const FakeWorldConfig config{.workers = 4, .seed = seed, .switch_chance = 0.3};
        std::vector<FakeOutcome> first;
        std::vector<FakeOutcome> second;
        EXPECT_EQ(trace_of(config, first), trace_of(config, second));
        for (std::size_t worker = 0; worker < first.size(); ++worker) {
            EXPECT_EQ(first[worker].calls, second[worker].calls);
            EXPECT_EQ(first[worker].ended_at, second[worker].ended_at);
        }
    }
}

TEST(FakeWorld, AnotherSeedGivesOtherTurnsEvenWhereTimesAreFixed) {
    std::vector<FakeOutcome> outcomes;
    std::vector<std::vector<std::int32_t>> orders;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        FakeWorldConfig config = exact_links();
        config.workers = 4;
        config.seed = seed;
        config.sends = FakeSends::eager;
        config.switch_chance = 0.0;
        std::vector<std::int32_t> order;
        for (const Seen& seen : trace_of(config, outcomes)) order.push_back(seen.worker);
        EXPECT_EQ(std::count(orders.begin(), orders.end(), order), 0) << "seed " << seed;
        orders.push_back(order);
    }
}

TEST(FakeWorld, SixtyFourWorkersAreNotTooMany) {
    std::vector<FakeOutcome> outcomes;
    EXPECT_EQ(trace_of({.workers = 64}, outcomes).size(), 64U * 6);  // 20160 messages
    for (const FakeOutcome& outcome : outcomes) {
        EXPECT_EQ(outcome.end, FakeEnd::returned);
        EXPECT_EQ(outcome.unreceived, 0);
        EXPECT_EQ(outcome.untold, 0);
    }
}

TEST(FakeWorld, MessagesOfOneTagArriveInOrderAndOvertakeThoseOfAnother) {
    int overtaken = 0;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        const FakeWorldConfig config{
            .workers = 2, .seed = seed, .latency_min = 1ns, .latency_max = 1ms};
        (void)run_fake_world(config, [&](World& world) {
            std::array<std::int32_t, 8> values{0, 1, 2, 3, 4, 5, 6, 7};
            std::array<std::int32_t, 8> heard{-1, -1, -1, -1, -1, -1, -1, -1};
            std::vector<Ticket> tickets;
            for (std::int32_t place = 0; place < 8; ++place) {
                const auto index = static_cast<std::size_t>(place);
                tickets.push_back(world.self() == WorkerId{0}
                                      ? send(world, WorkerId{1}, place % 2, values[index])
                                      : receive(world, WorkerId{0}, place % 2, heard[index]));
            }
            if (world.self() == WorkerId{0}) {
                EXPECT_EQ(wait_all(world, tickets, 1h), CommStatus::ok);
                return;
            }
            EXPECT_EQ(wait(world, tickets[7], 1h), CommStatus::ok);
            EXPECT_THAT((std::array{heard[1], heard[3], heard[5]}), ElementsAre(1, 3, 5));
            if (heard[6] == -1) ++overtaken;
            EXPECT_EQ(wait_all(world, {tickets.data(), 7}, 1h), CommStatus::ok);
            EXPECT_EQ(heard, values);
        });
    }
    EXPECT_GT(overtaken, 0);
    EXPECT_LT(overtaken, 50);
}

TEST(FakeWorld, AMessageTakesItsSizeOverTheRateAndALatencyAndFollowsTheOneBefore) {
    std::vector<Nanoseconds> forth(3);
    Nanoseconds back{0};
    (void)run_fake_world(exact_links(), [&](World& world) {
        std::array<std::vector<std::byte>, 3> bytes{
            std::vector<std::byte>(3000), std::vector<std::byte>(2000), {}};
        std::vector<Ticket> tickets;
        if (world.self() == WorkerId{1}) {
            for (std::int32_t tag = 0; tag < 3; ++tag) {
                tickets.push_back(world.receive(WorkerId{0}, Tag{tag}, bytes[Tag{tag}.index()]));
            }
            tickets.push_back(world.send(WorkerId{0}, Tag{0}, bytes[0]));
            for (std::size_t place = 0; place < 3; ++place) {
                EXPECT_EQ(wait(world, tickets[place], 1h), CommStatus::ok);
                forth[place] = world.clock().now();
            }
            EXPECT_EQ(wait(world, tickets[3], 1h), CommStatus::ok);
        } else {
            for (std::int32_t tag = 0; tag < 3; ++tag) {
                tickets.push_back(world.send(WorkerId{1}, Tag{tag}, bytes[Tag{tag}.index()]));
            }
            std::vector<std::byte> room(3000);
            const Ticket ticket = world.receive(WorkerId{1}, Tag{0}, room);
            EXPECT_EQ(wait(world, ticket, 1h), CommStatus::ok);
            back = world.clock().now();
            EXPECT_EQ(wait_all(world, tickets, 1h), CommStatus::ok);
        }
    });
    EXPECT_THAT(forth, ElementsAre(13us, 15us, 15us));
    EXPECT_EQ(back, 13us);  // the other direction is another link
}

TEST(FakeWorld, AnIdleLinkOwesNothingToThePast) {
    Nanoseconds second{0};
    (void)run_fake_world(exact_links(), [&](World& world) {
        std::int32_t value = 0;
        const WorkerId other{1 - world.self().value()};
        for (int message = 0; message < 2; ++message) {
            if (world.self() == WorkerId{0} && message == 1) world.rest(100us);
            const Ticket ticket = world.self() == WorkerId{0} ? send(world, other, 0, value)
                                                              : receive(world, other, 0, value);
            EXPECT_EQ(wait(world, ticket, 1h), CommStatus::ok);
            second = world.clock().now();
        }
    });
    EXPECT_EQ(second, 100us + 4ns + 10us);
}

TEST(FakeWorld, ADeadlineIsMissedExactlyThenAndMetUntilThen) {
    (void)run_fake_world(exact_links(), [&](World& world) {
        std::int32_t value = 0;
        if (world.self() == WorkerId{0}) {
            world.rest(50us);
            const Ticket ticket = send(world, WorkerId{1}, 0, value);  // there at 60.004 us
            world.rest(1s);
            EXPECT_EQ(world.poll(ticket), CommStatus::ok);
            world.rest(1s);
            return;
        }
        const Ticket ticket = receive(world, WorkerId{0}, 0, value);
        EXPECT_EQ(wait(world, ticket, 60us), CommStatus::timed_out);
        EXPECT_EQ(world.clock().now(), 60us);
        EXPECT_EQ(world.agree(1, 60001ns).status, CommStatus::timed_out);
        EXPECT_EQ(world.clock().now(), 60001ns);
        EXPECT_EQ(wait(world, ticket, 60004ns), CommStatus::ok);
        EXPECT_EQ(world.clock().now(), 60004ns);
    });
}

TEST(FakeWorld, RestReturnsOnceForWhatHasEndedAndOtherwiseWhenItIsTime) {
    FakeWorldConfig config = exact_links();
    config.sends = FakeSends::eager;
    (void)run_fake_world(config, [&](World& world) {
        std::int32_t value = 0;
        const WorkerId other{1 - world.self().value()};
        const std::array tickets{send(world, other, 0, value), receive(world, other, 0, value)};
        world.rest(1ms);  // the send has ended
        EXPECT_EQ(world.clock().now(), 0us);
        world.rest(1ms);  // the message comes
        EXPECT_EQ(world.clock().now(), 10us + 4ns);
        world.rest(1ms);  // nobody has asked for them, but that was said
        EXPECT_EQ(world.clock().now(), 1ms);
        world.rest(1us);
        EXPECT_EQ(world.clock().now(), 1ms);
        EXPECT_EQ(wait_all(world, tickets, 1ms), CommStatus::ok);
        const Ticket told = send(world, other, 1, value);
        EXPECT_EQ(world.poll(told), CommStatus::ok);
        world.rest(1100us);  // no news: it was told
        EXPECT_EQ(world.clock().now(), 1100us);
    });
}

TEST(FakeWorld, ARestThatIsOverLetsOthersRun) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {  // either worker may come first
        bool done = false;
        int turns = 0;
        const FakeWorldConfig config{.workers = 2, .seed = seed, .switch_chance = 0.0};
        (void)run_fake_world(config, [&](World& world) {
            if (world.self() == WorkerId{1}) return void(done = true);
            for (; !done && turns < 1000; ++turns) world.rest(0us);
        });
        EXPECT_LT(turns, 1000);
    }
}

TEST(FakeWorld, ASendThatMeetsItsReceiveEndsThenAndReadsItsBytesThen) {
    FakeWorldConfig config = exact_links();
    for (const FakeSends sends : {FakeSends::eager, FakeSends::rendezvous}) {
        config.sends = sends;
        const bool meets = sends == FakeSends::rendezvous;
        (void)run_fake_world(config, [&](World& world) {
            std::int32_t value = 7;
            if (world.self() == WorkerId{1}) {
                world.rest(1ms);
                const Ticket ticket = receive(world, WorkerId{0}, 0, value);
                EXPECT_EQ(wait(world, ticket, 1h), CommStatus::ok);
                EXPECT_EQ(world.clock().now(), 1ms);
                EXPECT_EQ(value, meets ? 8 : 7);
                return;
            }
            const Ticket ticket = send(world, WorkerId{1}, 0, value);
            value = 8;
            EXPECT_EQ(wait(world, ticket, 1h), CommStatus::ok);
            EXPECT_EQ(world.clock().now(), meets ? 1ms : 0ms);
            value = 9;
            world.rest(1ms);
        });
    }
}

TEST(FakeWorld, AllLearnTheSameAgreementLater) {
    const std::vector<FakeOutcome> outcomes =
        run_fake_world({.workers = 3, .latency_min = 1us, .latency_max = 1us}, [](World& world) {
            world.rest(world.self().value() * 1ms);
            for (std::uint32_t round = 0; round < 3; ++round) {
                const std::uint32_t without_mine = ~(1U << world.self().value());
                const Agreement agreement = world.agree(without_mine, 1h);
                EXPECT_EQ(agreement.status, CommStatus::ok);
                EXPECT_EQ(agreement.flags, ~7U);
            }
            EXPECT_EQ(world.clock().now(), 2ms + 3us);
        });
    for (const FakeOutcome& outcome : outcomes) EXPECT_EQ(outcome.calls, 4);
}

TEST(FakeWorld, ReportsWhereEachWorkerIsWhenNothingCanHappen) {
    const std::vector<FakeOutcome> outcomes =
        run_fake_world({.workers = 4, .stops = {{WorkerId{3}, 0}}}, [](World& world) {
            std::int32_t value = 0;
            if (world.self() == WorkerId{2}) return;
            if (world.self() == WorkerId{1}) {
                (void)world.agree(1, Nanoseconds::max());
                return;
            }
            (void)receive(world, WorkerId{3}, 5, value);
            world.rest(Nanoseconds::max());
            world.rest(Nanoseconds::max());
        });
    EXPECT_EQ(outcomes[2].end, FakeEnd::returned);
    EXPECT_EQ(outcomes[3].end, FakeEnd::stopped);
    for (const std::size_t worker : {0U, 1U}) {
        ASSERT_EQ(outcomes[worker].end, FakeEnd::threw);
        const std::string what = message_of(outcomes[worker].error);
        EXPECT_THAT(what, HasSubstr("worker 0 rests, 2 calls, receive from 3 tag 5"));
        EXPECT_THAT(what, HasSubstr("worker 1 agrees, 1 calls"));
        EXPECT_THAT(what, HasSubstr("worker 2 has ended"));
        EXPECT_THAT(what, HasSubstr("worker 3 is stopped"));
    }
}

TEST(FakeWorld, EndsARunOfTooManyCalls) {
    const std::vector<FakeOutcome> outcomes =
        run_fake_world({.workers = 2, .calls_max = 1000}, [](World& world) {
            if (world.self() == WorkerId{1}) world.rest(1h);
            while (true) world.rest(0us);
        });
    for (const FakeOutcome& outcome : outcomes) {
        ASSERT_EQ(outcome.end, FakeEnd::threw);
        EXPECT_THAT(message_of(outcome.error), HasSubstr("more calls"));
    }
}

TEST(FakeWorld, CountsWhatNobodyReceivedAndNobodyAskedFor) {
    const std::vector<FakeOutcome> outcomes =
        run_fake_world({.workers = 2, .sends = FakeSends::eager}, [](World& world) {
            std::int32_t value = 0;
            if (world.self() == WorkerId{1}) return;
            for (std::int32_t tag = 0; tag < 3; ++tag) (void)send(world, WorkerId{1}, tag, value);
            const Ticket ticket = send(world, WorkerId{1}, 3, value);
            EXPECT_EQ(wait(world, ticket, 1h), CommStatus::ok);
        });
    EXPECT_EQ(outcomes[1].unreceived, 4);
    EXPECT_EQ(outcomes[0].unreceived, 0);
    EXPECT_EQ(outcomes[0].untold, 3);
    EXPECT_EQ(outcomes[1].untold, 0);
}

TEST(FakeWorld, EndsTheProcessOnOurMistakes) {
    const auto run = [](const std::function<void(World&)>& body) {
        (void)run_fake_world({.workers = 2}, body);
    };
    const auto broken = testing::ExitedWithCode(1);
    std::array<std::byte, 4> bytes{};
    EXPECT_EXIT(run([&](World& world) {
                    const WorkerId other{1 - world.self().value()};
                    const std::array tickets{world.send(other, Tag{0}, {bytes.data(), 3}),
                                             world.receive(other, Tag{0}, bytes)};
                    (void)wait_all(world, tickets, 1h);
                }),
                broken, "size");
    EXPECT_EXIT(run([&](World& world) { (void)world.send(WorkerId{2}, Tag{0}, bytes); }), broken,
                "peer");
    EXPECT_EXIT(run([&](World& world) { (void)world.receive(world.self(), Tag{0}, bytes); }),
                broken, "peer");
    EXPECT_EXIT(run([&](World& world) {
                    const Ticket ticket =
                        world.send(WorkerId{1 - world.self().value()}, Tag{0}, bytes);
                    world.revoke();
                    (void)world.poll(ticket);
                    (void)world.poll(ticket);
                }),
                broken, "free");
}

}  // namespace
}  // namespace rhizome::world
