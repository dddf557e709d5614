// The paced device in virtual time: events happen to the nanosecond when the described accelerator
// gets there, and results are those of the device inside.
#include "device/paced.hpp"

#include <gtest/gtest.h>

#include "support/small_gpt.hpp"

namespace rhizome::tests {
namespace {

using namespace std::chrono_literals;
using device::Work;
using Part = device::Work::Part;

/// Each look at it takes a microsecond.
class TickingClock final : public Clock {
  public:
    [[nodiscard]] Nanoseconds now() const override { return now_ += 1us; }
    [[nodiscard]] Nanoseconds last() const { return now_; }

  private:
    mutable Nanoseconds now_{0};
};

const device::Pace pace{.layers = {{1e-3, 2e-3, 4e-3}, {10e-3, 20e-3, 40e-3}},
                        .update_s_per_element = 1e-6};

class Paced : public testing::Test {
  protected:
    void work(Part part, std::int32_t layer) {
        stream->begin({.part = part, .layer = LayerId{layer}});
    }
    [[nodiscard]] Nanoseconds due() const { return stream->record()->due().value(); }

    std::unique_ptr<device::Device> inner = device::make_reference_device(1);
    ManualClock clock;
    std::unique_ptr<device::Device> paced = device::make_paced_device(*inner, pace, clock);
    std::unique_ptr<device::Stream> stream = paced->make_stream();
};

TEST_F(Paced, EventHappensWhenTheWorkBeforeItIsDone) {
    work(Part::forward, 0);
    const auto event = stream->record();
    EXPECT_EQ(event->due(), 1ms);
    clock.advance(1ms - 1ns);
    EXPECT_FALSE(event->done());
    clock.advance(1ns);
    EXPECT_TRUE(event->done());
}

TEST_F(Paced, PartsAndLayersHaveTheirOwnTimesAndFollowOneAnother) {
    work(Part::forward, 0);
    work(Part::forward, 1);
    EXPECT_EQ(due(), 11ms);
    work(Part::backward_input, 1);
    EXPECT_EQ(due(), 31ms);
    work(Part::backward_weight, 1);
    EXPECT_EQ(due(), 71ms);
    work(Part::backward_input, 0);
    EXPECT_EQ(due(), 73ms);
    work(Part::backward_weight, 0);
    EXPECT_EQ(due(), 77ms);
}

TEST_F(Paced, AnEventIsNotMovedByWorkThatComesAfterIt) {
    work(Part::forward, 0);
    const auto event = stream->record();
    work(Part::forward, 1);
    EXPECT_EQ(event->due(), 1ms);
}

TEST_F(Paced, WorkOnAnIdleAcceleratorBeginsNow) {
    work(Part::forward, 0);
    clock.advance(5ms);
    work(Part::forward, 0);
    EXPECT_EQ(due(), 6ms);
    clock.advance(500us);
    work(Part::forward, 0);
    EXPECT_EQ(due(), 7ms);
}

TEST_F(Paced, AnEventOnAnIdleAcceleratorHasHappened) {
    clock.advance(3ms);
    const auto event = stream->record();
    EXPECT_EQ(event->due(), 3ms);
    EXPECT_TRUE(event->done());
}

TEST_F(Paced, UpdateTakesItsTimeByElements) {
    stream->begin({.part = Part::update, .elements = 250});
    EXPECT_EQ(due(), 250us);
    stream->begin({.part = Part::update, .elements = 3});
    EXPECT_EQ(due(), 253us);
}

TEST_F(Paced, OtherWorkAndOperationsTakeNoTime) {
    stream->begin({});
    device::Memory memory = paced->allocate(64);
    stream->zero(memory.at(0, {"numbers", Shape{16}, DType::f32}));
    EXPECT_EQ(due(), 0ns);
    stream->synchronize();
}

TEST_F(Paced, AnEventThatIsPastHoldsUpNoStream) {
    const auto other = paced->make_stream();
    work(Part::forward, 1);
    const auto event = stream->record();
    clock.advance(15ms);
    other->begin({.part = Part::forward, .layer = LayerId{0}});
    other->wait(*event);  // one that is past holds up nobody
    EXPECT_EQ(other->record()->due(), 16ms);
    other->wait(*inner->make_stream()->record());
    EXPECT_EQ(other->record()->due(), 16ms);
}

TEST_F(Paced, StreamsWorkBesideEachOther) {
    const auto other = paced->make_stream();
    work(Part::forward, 1);
    other->begin({.part = Part::forward, .layer = LayerId{0}});
    EXPECT_EQ(other->record()->due(), 1ms);
}

TEST_F(Paced, BlockingCallsReturnWhenTheAcceleratorIsThere) {
    const TickingClock ticking;
    const device::Pace quick{.layers = {{40e-6, 0, 0}}};
    const auto device = device::make_paced_device(*inner, quick, ticking);
    const auto busy = device->make_stream();
    busy->begin({.part = Part::forward, .layer = LayerId{0}});
    const auto event = busy->record();
    event->wait();
    EXPECT_GE(ticking.last(), event->due().value());
    busy->begin({.part = Part::forward, .layer = LayerId{0}});
    const Nanoseconds end = busy->record()->due().value();
    busy->synchronize();
    EXPECT_GE(ticking.last(), end);
}

TEST_F(Paced, ResultsAndFingerprintAreThoseOfTheDeviceInside) {
    SmallRun plain{{.dropout = 0.2}};
    oracle::Trainer trainer{*paced,
                            plain.network,
                            plain.text,
                            {.seed = 1234,
                             .rows = 2,
                             .lanes = {4, 2},
                             .optimizer = small_optimizer(),
                             .recompute = engine::Recompute::none}};
    for (std::int32_t step = 0; step < 2; ++step) {
        EXPECT_EQ(trainer.run_step(Step{step}).loss, plain.trainer.run_step(Step{step}).loss);
    }
    EXPECT_EQ(trainer.chunk_digests(), plain.trainer.chunk_digests());
    EXPECT_EQ(paced->fingerprint(), inner->fingerprint());
}

}  // namespace
}  // namespace rhizome::tests
