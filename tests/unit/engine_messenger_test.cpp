// Messages beside the computation: what leaves waits for the device, who waits has a deadline, and
// the first bad end is the last word.
#include "engine/messenger.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "world/fake_world.hpp"

namespace rhizome::engine {
namespace {

using namespace std::chrono_literals;
using device::Tensor;
using world::FakeOutcome;
using world::FakeSends;
using world::Tag;
using world::World;

constexpr Nanoseconds patience = 50ms;
constexpr WorkerId zero{0};
constexpr WorkerId one{1};

/// Happens at a time, which it tells or keeps to itself.
class TimedEvent final : public device::Event {
  public:
    enum class Due : std::uint8_t { told, untold };
    TimedEvent(const Clock& clock, Nanoseconds time, Due due)
        : clock_{clock}, time_{time}, due_{due} {}

    [[nodiscard]] bool done() const override { return clock_.now() >= time_; }
    void wait() const override { ADD_FAILURE() << "the host is blocked"; }
    [[nodiscard]] std::optional<Nanoseconds> due() const override {
        return due_ == Due::told ? std::optional{time_} : std::nullopt;
    }

  private:
    const Clock& clock_;
    Nanoseconds time_;
    Due due_;
};

/// Happens when the test says so.
struct FlagEvent final : device::Event {
    bool happened = false;
    [[nodiscard]] bool done() const override { return happened; }
    void wait() const override { ADD_FAILURE() << "the host is blocked"; }
};

std::shared_ptr<FlagEvent> past() {
    auto event = std::make_shared<FlagEvent>();
    event->happened = true;
    return event;
}

std::shared_ptr<device::Event> at(World& world, Nanoseconds time,
                                  TimedEvent::Due due = TimedEvent::Due::told) {
    return std::make_shared<TimedEvent>(world.clock(), time, due);
}

/// Numbers with a tensor over them.
struct Numbers {
    explicit Numbers(std::size_t count, std::int32_t first = 0) : values(count) {
        std::iota(values.begin(), values.end(), first);
    }
    [[nodiscard]] Tensor tensor() {
        return {reinterpret_cast<std::byte*>(values.data()),
                Shape{static_cast<std::int64_t>(values.size())}, DType::i32};
    }
    std::vector<std::int32_t> values;
};

void send(Messenger& messenger, WorkerId to, std::int32_t tag, Numbers& numbers,
          std::shared_ptr<const device::Event> ready, std::int32_t* in_flight = nullptr) {
    const Tensor tensor = numbers.tensor();
    messenger.send(to, Tag{tag}, std::span{&tensor, 1}, std::move(ready), in_flight);
}

Messenger::Receipt receive(Messenger& messenger, WorkerId from, std::int32_t tag,
                           Numbers& numbers) {
    const Tensor tensor = numbers.tensor();
    return messenger.receive(from, Tag{tag}, std::span{&tensor, 1});
}

void rest_until(World& world, Nanoseconds time) {
    while (world.clock().now() < time) world.rest(time);
}

/// One body for each of two workers, on links of no latency.
std::vector<FakeOutcome> run(const std::function<void(World&, Messenger&)>& first,
                             const std::function<void(World&, Messenger&)>& second,
                             FakeSends sends = FakeSends::eager) {
    auto outcomes =
        world::run_fake_world({.workers = 2,
                               .latency_min = 0ns,
                               .latency_max = 0ns,
                               .sends = sends,
                               .detection_max = 0ns},
                              [&](World& world) {
                                  Messenger messenger{world, patience};
                                  (world.self() == zero ? first : second)(world, messenger);
                              });
    for (const FakeOutcome& outcome : outcomes) {
        if (outcome.error) std::rethrow_exception(outcome.error);
    }
    return outcomes;
}

void receive_one(World& world, Messenger& messenger, Nanoseconds earliest, Nanoseconds latest) {
    Numbers numbers{4, 100};
    EXPECT_EQ(messenger.wait(receive(messenger, zero, 0, numbers)), CommStatus::ok);
    EXPECT_EQ(numbers.values, Numbers(4).values);
    EXPECT_GE(world.clock().now(), earliest);
    EXPECT_LE(world.clock().now(), latest);
}

void do_nothing(World& /*world*/, Messenger& /*messenger*/) {}
void live_on(World& world, Messenger& /*messenger*/) { rest_until(world, 1s); }

TEST(Sends, LeaveWhenTheDeviceIsThere) {
    run(
        [](World& world, Messenger& messenger) {
            Numbers numbers{4};
            send(messenger, one, 0, numbers, at(world, 5ms));
            EXPECT_EQ(messenger.bytes_sent(), 0);
            EXPECT_EQ(messenger.drain(), CommStatus::ok);
            EXPECT_EQ(messenger.bytes_sent(), 16);
            EXPECT_EQ(world.clock().now(), 5ms);
        },
        [](World& world, Messenger& messenger) { receive_one(world, messenger, 5ms, 5ms); });
}

TEST(Sends, AreLookedAfterWhereTheDeviceDoesNotSayWhen) {
    run(
        [](World& world, Messenger& messenger) {
            Numbers numbers{4};
            send(messenger, one, 0, numbers, at(world, 5ms, TimedEvent::Due::untold));
            EXPECT_EQ(messenger.drain(), CommStatus::ok);
        },
        [](World& world, Messenger& messenger) { receive_one(world, messenger, 5ms, 5ms + 20us); });
}

TEST(Sends, CarryWhatTheDeviceMadeLast) {
    run(
        [](World&, Messenger& messenger) {
            Numbers numbers{4, 70};
            const auto made = std::make_shared<FlagEvent>();
            send(messenger, one, 0, numbers, made);
            messenger.move_along();
            std::iota(numbers.values.begin(), numbers.values.end(), 0);
            made->happened = true;
            EXPECT_EQ(messenger.drain(), CommStatus::ok);
        },
        [](World& world, Messenger& messenger) { receive_one(world, messenger, 0ms, 1ms); });
}

TEST(Sends, LeaveInTheirOrder) {
    run(
        [](World& world, Messenger& messenger) {
            Numbers early{4};
            Numbers late{1, 9};
            send(messenger, one, 0, early, at(world, 5ms));
            send(messenger, one, 0, late, past());
            EXPECT_EQ(messenger.bytes_sent(), 0);
            EXPECT_EQ(messenger.drain(), CommStatus::ok);
        },
        [](World& world, Messenger& messenger) {
            receive_one(world, messenger, 5ms, 5ms);
            Numbers late{1};
            EXPECT_EQ(messenger.wait(receive(messenger, zero, 0, late)), CommStatus::ok);
            EXPECT_EQ(late.values.front(), 9);
        });
}

TEST(Sends, LeaveWhileTheHostIsBusyIfItMovesThemAlong) {
    run(
        [](World& world, Messenger& messenger) {
            Numbers numbers{4};
            send(messenger, one, 0, numbers, at(world, 2ms));
            rest_until(world, 3ms);
            EXPECT_EQ(messenger.bytes_sent(), 0);
            messenger.move_along();
            EXPECT_EQ(messenger.bytes_sent(), 16);
            EXPECT_EQ(messenger.drain(), CommStatus::ok);
            EXPECT_EQ(world.clock().now(), 3ms);
        },
        [](World& world, Messenger& messenger) { receive_one(world, messenger, 3ms, 3ms); });
}

TEST(InFlight, CountsMessagesUntilTheirBytesMayBeWrittenAgain) {
    run(
        [](World& world, Messenger& messenger) {
            Numbers numbers{4};
            std::int32_t in_flight = 0;
            send(messenger, one, 0, numbers, at(world, 1ms), &in_flight);
            send(messenger, one, 1, numbers, past(), &in_flight);
            EXPECT_EQ(in_flight, 2);
            rest_until(world, 2ms);
            messenger.move_along();
            EXPECT_EQ(in_flight, 2);  // on their way: nobody receives them yet
            EXPECT_EQ(messenger.wait_until_sent(in_flight), CommStatus::ok);
            EXPECT_EQ(in_flight, 0);
            EXPECT_EQ(world.clock().now(), 12ms);
        },
        [](World& world, Messenger& messenger) {
            Numbers numbers{4};
            for (const std::int32_t tag : {0, 1}) {
                rest_until(world, tag == 0 ? 8ms : 12ms);
                EXPECT_EQ(messenger.wait(receive(messenger, zero, tag, numbers)), CommStatus::ok);
            }
        },
        FakeSends::rendezvous);
}

TEST(InFlight, OfOneCounterIsNotTheOthers) {
    run(
        [](World& world, Messenger& messenger) {
            Numbers numbers{4};
            std::int32_t first = 0;
            std::int32_t second = 0;
            send(messenger, one, 0, numbers, past(), &first);
            send(messenger, one, 1, numbers, past(), &second);
            EXPECT_EQ(messenger.wait_until_sent(first), CommStatus::ok);
            EXPECT_EQ(world.clock().now(), 4ms);
            EXPECT_EQ(second, 1);
            EXPECT_EQ(messenger.drain(), CommStatus::ok);
            EXPECT_EQ(second, 0);
        },
        [](World& world, Messenger& messenger) {
            Numbers numbers{4};
            rest_until(world, 4ms);
            EXPECT_EQ(messenger.wait(receive(messenger, zero, 0, numbers)), CommStatus::ok);
            rest_until(world, 9ms);
            EXPECT_EQ(messenger.wait(receive(messenger, zero, 1, numbers)), CommStatus::ok);
        },
        FakeSends::rendezvous);
}

TEST(Receipts, MayBeWaitedForInAnyOrderAndHaveSeveralTensors) {
    run(
        [](World&, Messenger& messenger) {
            std::vector<Numbers> all{Numbers{3, 0}, Numbers{5, 10}, Numbers{1, 20}};
            const std::vector<Tensor> two{all[0].tensor(), all[1].tensor()};
            messenger.send(one, Tag{7}, two, past(), nullptr);
            send(messenger, one, 8, all[2], past());
            EXPECT_EQ(messenger.drain(), CommStatus::ok);
            EXPECT_EQ(messenger.bytes_sent(), 4 * 9);
        },
        [](World&, Messenger& messenger) {
            std::vector<Numbers> all{Numbers{3}, Numbers{5}, Numbers{1}};
            const std::vector<Tensor> two{all[0].tensor(), all[1].tensor()};
            const auto first = messenger.receive(zero, Tag{7}, two);
            const auto second = receive(messenger, zero, 8, all[2]);
            EXPECT_NE(first, second);
            EXPECT_EQ(messenger.wait(second), CommStatus::ok);
            EXPECT_EQ(messenger.wait(first), CommStatus::ok);
            EXPECT_EQ(all[0].values, Numbers(3, 0).values);
            EXPECT_EQ(all[1].values, Numbers(5, 10).values);
            EXPECT_EQ(all[2].values, Numbers(1, 20).values);
            EXPECT_EQ(receive(messenger, zero, 9, all[2]), first);  // free again
        });
}

TEST(Waits, EndAtTheirDeadline) {
    const auto times_out = [](const std::function<CommStatus(Messenger&, World&)>& wait) {
        run(
            [&](World& world, Messenger& messenger) {
                rest_until(world, 3ms);
                EXPECT_EQ(wait(messenger, world), CommStatus::timed_out);
                EXPECT_EQ(world.clock().now(), 3ms + patience);
            },
            live_on, FakeSends::rendezvous);
    };
    Numbers numbers{4};
    const FlagEvent never;
    std::int32_t in_flight = 0;
    times_out([&](Messenger& messenger, World&) {
        return messenger.wait(receive(messenger, one, 0, numbers));
    });
    times_out([&](Messenger& messenger, World&) { return messenger.wait(never); });
    times_out([&](Messenger& messenger, World& world) {
        return messenger.wait(*at(world, 3ms + patience + 1ms));
    });
    times_out([&](Messenger& messenger, World&) {
        send(messenger, one, 0, numbers, past());
        return messenger.drain();
    });
    times_out([&](Messenger& messenger, World&) {
        send(messenger, one, 0, numbers, std::make_shared<FlagEvent>());
        return messenger.drain();
    });
    times_out([&](Messenger& messenger, World&) {
        send(messenger, one, 0, numbers, past(), &in_flight);
        return messenger.wait_until_sent(in_flight);
    });
}

TEST(Waits, ForADeviceEndWhenItIsThere) {
    run(
        [](World& world, Messenger& messenger) {
            EXPECT_EQ(messenger.wait(*at(world, 5ms)), CommStatus::ok);
            EXPECT_EQ(world.clock().now(), 5ms);
            EXPECT_EQ(messenger.wait(*at(world, 9ms, TimedEvent::Due::untold)), CommStatus::ok);
            EXPECT_LE(world.clock().now(), 9ms + 20us);
            const Nanoseconds before = world.clock().now();
            EXPECT_EQ(messenger.wait(*past()), CommStatus::ok);
            EXPECT_EQ(world.clock().now(), before);
        },
        do_nothing);
}

TEST(Waits, MoveMessagesThatTheyAreNotAbout) {
    run(
        [](World& world, Messenger& messenger) {
            Numbers numbers{4};
            send(messenger, one, 0, numbers, at(world, 2ms));
            EXPECT_EQ(messenger.wait(*at(world, 6ms)), CommStatus::ok);
            EXPECT_EQ(messenger.bytes_sent(), 16);
        },
        [](World& world, Messenger& messenger) { receive_one(world, messenger, 2ms, 2ms); });
}

TEST(Status, IsThatOfTheMessageThatWasWaitedFor) {
    run(
        [](World&, Messenger& messenger) {
            Numbers numbers{4};
            EXPECT_EQ(messenger.wait(receive(messenger, one, 0, numbers)), CommStatus::peer_lost);
        },
        do_nothing);
}

TEST(Status, OnceBadIsGivenByEveryLaterCall) {
    run(
        [](World& world, Messenger& messenger) {
            Numbers numbers{4};
            std::int32_t in_flight = 0;
            const auto lost = receive(messenger, one, 0, numbers);
            rest_until(world, 1ms);
            static_cast<void>(messenger.wait(lost));
            send(messenger, one, 1, numbers, past(), &in_flight);
            EXPECT_EQ(in_flight, 0);
            EXPECT_EQ(messenger.bytes_sent(), 0);
            EXPECT_EQ(messenger.wait(receive(messenger, one, 1, numbers)), CommStatus::peer_lost);
            EXPECT_EQ(messenger.wait(*past()), CommStatus::peer_lost);
            EXPECT_EQ(messenger.wait_until_sent(in_flight), CommStatus::peer_lost);
            EXPECT_EQ(messenger.drain(), CommStatus::peer_lost);
            messenger.move_along();
        },
        do_nothing);
}

TEST(Status, OfATimeoutStays) {
    run(
        [](World& world, Messenger& messenger) {
            Numbers numbers{1};
            EXPECT_EQ(messenger.wait(receive(messenger, one, 0, numbers)), CommStatus::timed_out);
            rest_until(world, 200ms);  // what was late is there now
            EXPECT_EQ(messenger.drain(), CommStatus::timed_out);
            EXPECT_EQ(messenger.wait(*past()), CommStatus::timed_out);
        },
        [](World& world, Messenger& messenger) {
            rest_until(world, 100ms);
            Numbers numbers{1};
            send(messenger, zero, 0, numbers, past());
            rest_until(world, 300ms);
        });
}

TEST(Status, OfARevokedEpochEndsEveryWait) {
    run(
        [](World& world, Messenger& messenger) {
            Numbers numbers{4};
            send(messenger, one, 0, numbers, past());
            EXPECT_EQ(messenger.wait(*at(world, 30ms)), CommStatus::revoked);
            EXPECT_EQ(world.clock().now(), 2ms);
        },
        [](World& world, Messenger&) {
            rest_until(world, 2ms);
            world.revoke();
            rest_until(world, 1s);
        },
        FakeSends::rendezvous);
}

TEST(MessengerWithNothingToDo, LeavesTheWorldAlone) {
    const auto outcomes = run(
        [](World& world, Messenger& messenger) {
            messenger.move_along();
            EXPECT_EQ(messenger.drain(), CommStatus::ok);
            EXPECT_EQ(world.clock().now(), 0ns);
        },
        do_nothing);
    EXPECT_EQ(outcomes.front().calls, 0);
}

}  // namespace
}  // namespace rhizome::engine
