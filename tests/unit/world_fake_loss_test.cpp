// The fake world when workers die, stop or give up: at any call, nobody hangs, and all who live
// come to the same end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <vector>

#include "unit/world_fake.hpp"
#include "world/fake_world.hpp"

namespace rhizome::world {
namespace {

using namespace std::chrono_literals;
using testing::AnyOf;
using testing::Each;

/// How a worker of ring() ended, if it came to its end.
struct RingEnd {
    std::vector<CommStatus> steps;  // ok, and at most one other
    Agreement agreement{CommStatus::timed_out, 0};
    std::int32_t sum = 0;
};

/// Three steps of everybody's number going round, then an agreement on whether all went well.
void ring(World& world, std::vector<RingEnd>& ends) {
    const auto workers = static_cast<std::int32_t>(world.members().size());
    const std::int32_t self = world.self().value();
    const WorkerId next{(self + 1) % workers};
    const WorkerId last{(self + workers - 1) % workers};
    RingEnd end;
    std::int32_t value = self;
    for (std::int32_t step = 0; step < 3; ++step) {
        std::int32_t heard = -1;
        const std::array tickets{receive(world, last, step, heard), send(world, next, step, value)};
        end.steps.push_back(wait_all(world, tickets, world.clock().now() + 1s));
        if (end.steps.back() != CommStatus::ok) {
            world.revoke();
            break;
        }
        end.sum += heard;
        value = heard;
    }
    const bool well = end.steps.back() == CommStatus::ok;
    end.agreement = world.agree(well ? 1 : 0, world.clock().now() + 10s);
    ends[world.self().index()] = end;
}

void expect_survivors_end_alike(const std::vector<RingEnd>& ends, WorkerId dead) {
    std::optional<Agreement> first;
    bool all_well = true;
    for (std::size_t worker = 0; worker < ends.size(); ++worker) {
        if (worker == dead.index()) continue;
        const RingEnd& end = ends[worker];
        ASSERT_FALSE(end.steps.empty());
        EXPECT_THAT(end.steps,
                    Each(AnyOf(CommStatus::ok, CommStatus::peer_lost, CommStatus::revoked)));
        ASSERT_NE(end.agreement.status, CommStatus::timed_out);
        if (!first) first = end.agreement;
        EXPECT_EQ(end.agreement.status, first->status);
        EXPECT_EQ(end.agreement.flags, first->flags);
        all_well = all_well && end.steps.back() == CommStatus::ok;
    }
    // What the dead one gave may be in it; what the others gave is.
    if (first && !all_well) {
        EXPECT_EQ(first->flags, 0U);
    }
}

TEST(FakeLoss, WhereverAWorkerDiesTheOthersComeToTheSameEnd) {
    std::set<CommStatus> seen;
    std::set<CommStatus> agreed;
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
        std::vector<RingEnd> ends(4);
        const auto body = [&](World& world) { ring(world, ends); };
        const std::vector<FakeOutcome> calm = run_fake_world({.workers = 4, .seed = seed}, body);
        for (const RingEnd& end : ends) {
            EXPECT_EQ(end.agreement.status, CommStatus::ok);
            EXPECT_EQ(end.agreement.flags, 1U);
        }
        for (std::int32_t victim = 0; victim < 4; ++victim) {
            const WorkerId dead{victim};
            for (std::int64_t call = 0; call < calm[dead.index()].calls; ++call) {
                for (const Nanoseconds after : {0us, 1us, 20us}) {
                    SCOPED_TRACE(testing::Message()
                                 << "seed " << seed << ", worker " << victim << ", call " << call
                                 << ", after " << after.count());
                    ends.assign(4, {});
                    const std::vector<FakeOutcome> outcomes = run_fake_world(
                        {.workers = 4, .seed = seed, .kills = {{dead, call, after}}}, body);
                    const FakeOutcome& victims = outcomes[dead.index()];
                    if (after == 0us) {
                        EXPECT_EQ(victims.end, FakeEnd::killed);
                        EXPECT_EQ(victims.calls, call + 1);
                    }
                    // A late kill may find that the victim has returned.
                    EXPECT_EQ(victims.end == FakeEnd::killed, ends[dead.index()].steps.empty());
                    expect_survivors_end_alike(ends, dead);
                    for (const RingEnd& end : ends) {
                        seen.insert(end.steps.begin(), end.steps.end());
                        if (!end.steps.empty()) agreed.insert(end.agreement.status);
                    }
                }
            }
        }
    }
    EXPECT_EQ(seen, (std::set{CommStatus::ok, CommStatus::peer_lost, CommStatus::revoked}));
    EXPECT_EQ(agreed, (std::set{CommStatus::ok, CommStatus::peer_lost}));
}

/// Numbers that are others when they are gone.
struct Fleeting {
    std::array<std::int32_t, 4> values{1, 2, 3, 4};
    Fleeting() = default;
    Fleeting(const Fleeting&) = delete;
    Fleeting& operator=(const Fleeting&) = delete;
    ~Fleeting() {
        for (volatile std::int32_t& value : values) value = -1;
    }
};

TEST(FakeLoss, WhatADyingWorkerHadSentArrivesUpToSomePoint) {
    std::set<int> counts;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        (void)run_fake_world(
            {.workers = 2, .seed = seed, .kills = {{WorkerId{0}, 4}}}, [&](World& world) {
                if (world.self() == WorkerId{0}) {
                    const Fleeting values;
                    for (const std::int32_t& value : values.values) {
                        (void)send(world, WorkerId{1}, 0, value);
                    }
                    world.rest(1h);  // dies here
                }
                std::array<std::int32_t, 4> heard{};
                int count = 0;
                for (std::size_t place = 0; place < 4; ++place) {
                    const Ticket ticket = receive(world, WorkerId{0}, 0, heard[place]);
                    const CommStatus status = wait(world, ticket, 1h);
                    ASSERT_THAT(status, AnyOf(CommStatus::ok, CommStatus::peer_lost));
                    if (status == CommStatus::ok) {
                        EXPECT_EQ(count++, static_cast<int>(place));
                        EXPECT_EQ(heard[place], count);
                    }
                }
                counts.insert(count);
            });
    }
    EXPECT_EQ(counts, (std::set{0, 1, 2, 3, 4}));
}

TEST(FakeLoss, WhatHadArrivedIsReceivedAfterTheLossIsKnown) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        const FakeWorldConfig config{.workers = 2,
                                     .seed = seed,
                                     .latency_max = 20us,
                                     .detection_max = 1ms,
                                     .kills = {{WorkerId{0}, 1, 30us}}};
        (void)run_fake_world(config, [&](World& world) {
            std::int32_t value = 7;
            if (world.self() == WorkerId{0}) {
                (void)send(world, WorkerId{1}, 0, value);
                while (true) world.rest(1h);
            }
            world.rest(2ms);
            std::int32_t heard = 0;
            const std::array tickets{receive(world, WorkerId{0}, 0, heard),
                                     receive(world, WorkerId{0}, 0, value)};
            EXPECT_EQ(world.poll(tickets[0]), CommStatus::ok);
            EXPECT_EQ(heard, 7);
            EXPECT_EQ(world.poll(tickets[1]), CommStatus::peer_lost);
            EXPECT_EQ(world.poll(send(world, WorkerId{0}, 0, value)), CommStatus::peer_lost);
        });
    }
}

TEST(FakeLoss, EachObserverLearnsOfADeathAtATimeOfItsOwnWithinTheBound) {
    std::set<Nanoseconds> times;
    const FakeWorldConfig config{.workers = 5, .detection_max = 300us, .kills = {{WorkerId{2}, 1}}};
    (void)run_fake_world(config, [&](World& world) {
        std::int32_t value = 0;
        world.rest(1ms);
        const Ticket ticket = receive(world, WorkerId{2}, 0, value);
        EXPECT_EQ(wait(world, ticket, 1h), CommStatus::peer_lost);
        times.insert(world.clock().now());
        world.rest(2ms);
    });
    EXPECT_EQ(times.size(), 4U);
    EXPECT_GE(*times.begin(), 1ms);
    EXPECT_LE(*times.rbegin(), 1300us);
}

TEST(FakeLoss, WhatAWorkerSentBeforeItReturnedArrivesThenItIsGone) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        const FakeWorldConfig config{.workers = 2,
                                     .seed = seed,
                                     .latency_max = 1ms,
                                     .sends = FakeSends::eager,
                                     .detection_max = 1us};
        (void)run_fake_world(config, [&](World& world) {
            std::int32_t value = 0;
            if (world.self() == WorkerId{0}) {
                (void)send(world, WorkerId{1}, 0, value);
                return;
            }
            const std::array tickets{receive(world, WorkerId{0}, 0, value),
                                     receive(world, WorkerId{0}, 0, value)};
            EXPECT_EQ(wait(world, tickets[0], 1h), CommStatus::ok);
            EXPECT_EQ(wait(world, tickets[1], 1h), CommStatus::peer_lost);
            EXPECT_EQ(world.agree(1, 1h).status, CommStatus::peer_lost);
        });
    }
}

TEST(FakeLoss, AStoppedWorkerIsMissedByDeadlinesOnlyAndUnwoundLast) {
    bool unwound = false;
    const FakeWorldConfig config{
        .workers = 3, .sends = FakeSends::rendezvous, .stops = {{WorkerId{0}, 2}}};
    const auto outcomes = run_fake_world(config, [&](World& world) {
        std::int32_t value = 0;
        if (world.self() == WorkerId{0}) {
            const std::unique_ptr<void, void (*)(void*)> scope{
                &unwound, [](void* flag) { *static_cast<bool*>(flag) = true; }};
            (void)send(world, WorkerId{1}, 0, value);
            (void)receive(world, WorkerId{2}, 0, value);
            world.rest(1h);  // stops here
            ADD_FAILURE() << "came back";
        }
        const Ticket ticket = world.self() == WorkerId{1} ? receive(world, WorkerId{0}, 0, value)
                                                          : send(world, WorkerId{0}, 0, value);
        EXPECT_EQ(wait(world, ticket, 5ms), CommStatus::timed_out);
        EXPECT_EQ(world.clock().now(), 5ms);
        world.revoke();
        EXPECT_EQ(world.agree(1, 7ms).status, CommStatus::timed_out);
        EXPECT_EQ(world.clock().now(), 7ms);
        EXPECT_FALSE(unwound);
    });
    EXPECT_TRUE(unwound);
    EXPECT_EQ(outcomes[0].end, FakeEnd::stopped);
    EXPECT_EQ(outcomes[1].end, FakeEnd::returned);
    EXPECT_EQ(outcomes[2].end, FakeEnd::returned);
}

TEST(FakeLoss, AStoppedWorkerMayBeKilledThenItsLossIsKnown) {
    const FakeWorldConfig config{
        .workers = 2, .kills = {{WorkerId{0}, 0, 2s}}, .stops = {{WorkerId{0}, 0}}};
    const auto outcomes = run_fake_world(config, [&](World& world) {
        EXPECT_EQ(world.agree(1, 1s).status, CommStatus::timed_out);
        EXPECT_EQ(world.agree(1, 5s).status, CommStatus::peer_lost);
        EXPECT_GE(world.clock().now(), 2s);
        EXPECT_LE(world.clock().now(), 2s + 2ms);
    });
    EXPECT_EQ(outcomes[0].end, FakeEnd::killed);
    EXPECT_EQ(outcomes[0].ended_at, 2s);
}

TEST(FakeLoss, ARevocationWakesThoseWhoWaitForSomebodyAlive) {
    const FakeWorldConfig config{.workers = 3, .latency_min = 2us, .latency_max = 9us};
    const auto outcomes = run_fake_world(config, [&](World& world) {
        std::int32_t value = 0;
        if (world.self() == WorkerId{0}) {
            world.rest(1ms);
            const Ticket before = receive(world, WorkerId{2}, 0, value);
            world.revoke();
            EXPECT_EQ(world.poll(before), CommStatus::revoked);
            EXPECT_EQ(world.clock().now(), 1ms);
        } else if (world.self() == WorkerId{1}) {
            const Ticket ticket = receive(world, WorkerId{2}, 0, value);
            EXPECT_EQ(wait(world, ticket, 1h), CommStatus::revoked);
            EXPECT_GE(world.clock().now(), 1ms + 2us);
            EXPECT_LE(world.clock().now(), 1ms + 9us);
        } else {
            world.rest(1h);  // nothing of its own is under way
            EXPECT_LE(world.clock().now(), 1ms + 9us);
        }
        world.revoke();
        EXPECT_EQ(world.poll(receive(world, WorkerId{(world.self().value() + 1) % 3}, 1, value)),
                  CommStatus::revoked);
        EXPECT_EQ(world.poll(send(world, WorkerId{(world.self().value() + 1) % 3}, 1, value)),
                  CommStatus::revoked);
        const Agreement agreement = world.agree(5, 1h);
        EXPECT_EQ(agreement.status, CommStatus::ok);
        EXPECT_EQ(agreement.flags, 5U);
    });
    for (const FakeOutcome& outcome : outcomes) EXPECT_EQ(outcome.untold, 0);
}

TEST(FakeLoss, WhatHasEndedButWasNotToldMayBeRevokedAfterAll) {
    std::set<CommStatus> seen;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        const FakeWorldConfig config{.workers = 2, .seed = seed, .sends = FakeSends::eager};
        (void)run_fake_world(config, [&](World& world) {
            std::int32_t value = 0;
            const Ticket ticket = send(world, WorkerId{1 - world.self().value()}, 0, value);
            world.revoke();
            seen.insert(world.poll(ticket).value_or(CommStatus::timed_out));
        });
    }
    EXPECT_EQ(seen, (std::set{CommStatus::ok, CommStatus::revoked}));
}

TEST(FakeLoss, ARevocationWhoseWorkerDiesIsHeardByAllOrByNobody) {
    std::set<int> heard;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        int count = 0;
        const FakeWorldConfig config{
            .workers = 4, .seed = seed, .kills = {{WorkerId{0}, 1, seed % 2 * 5us}}};
        (void)run_fake_world(config, [&](World& world) {
            std::int32_t value = 0;
            if (world.self() == WorkerId{0}) {
                world.revoke();
                world.rest(1h);
            }
            world.rest(1ms);
            const WorkerId peer{world.self().value() % 3 + 1};
            const Ticket ticket = receive(world, peer, 0, value);
            if (wait(world, ticket, 2ms) == CommStatus::revoked) ++count;
            (void)world.agree(1, 1s);
        });
        heard.insert(count);
    }
    EXPECT_EQ(heard, (std::set{0, 3}));
}

/// A destructor that asks the world for everything.
struct Farewell {
    World& world;
    explicit Farewell(World& of) : world{of} {}
    Farewell(const Farewell&) = delete;
    Farewell& operator=(const Farewell&) = delete;
    ~Farewell() {
        std::int32_t value = 0;
        const std::array tickets{send(world, WorkerId{1}, 9, value),
                                 receive(world, WorkerId{1}, 9, value)};
        const CommStatus ended = wait_all(world, tickets, 1h);
        EXPECT_EQ(ended, CommStatus::revoked);
        world.rest(1h);
        const Agreement agreement = world.agree(1, 1h);
        EXPECT_EQ(agreement.status, CommStatus::timed_out);
        world.revoke();
    }
};

TEST(FakeLoss, AKilledWorkerDoesNothingMoreWhateverItTries) {
    int swallowed = 0;
    const FakeWorldConfig config{.workers = 2, .kills = {{WorkerId{0}, 1}}};
    const auto outcomes = run_fake_world(config, [&](World& world) {
        if (world.self() == WorkerId{1}) {
            EXPECT_EQ(world.agree(1, 1h).status, CommStatus::peer_lost);
            return;
        }
        world.rest(1us);
        try {
            const Farewell farewell{world};
            world.rest(1h);  // dies here
        } catch (const std::exception&) {
            ADD_FAILURE() << "no error of the program's";
        } catch (...) {
            ++swallowed;
        }
        world.rest(1h);
        ADD_FAILURE() << "lives on";
    });
    EXPECT_EQ(swallowed, 1);
    EXPECT_EQ(outcomes[0].end, FakeEnd::killed);
    EXPECT_EQ(outcomes[0].ended_at, 1us);
    EXPECT_EQ(outcomes[0].calls, 2);
    EXPECT_EQ(outcomes[1].unreceived, 0);
}

TEST(FakeLoss, AWorkerThatThrowsIsLostAndItsErrorKept) {
    const auto outcomes = run_fake_world({.workers = 2}, [&](World& world) {
        if (world.self() == WorkerId{0}) throw std::runtime_error{"broken device"};
        EXPECT_EQ(world.agree(1, 1h).status, CommStatus::peer_lost);
    });
    EXPECT_EQ(outcomes[0].end, FakeEnd::threw);
    EXPECT_EQ(message_of(outcomes[0].error), "broken device");
    EXPECT_EQ(outcomes[1].end, FakeEnd::returned);
}

}  // namespace
}  // namespace rhizome::world
