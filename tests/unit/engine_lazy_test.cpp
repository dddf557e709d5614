// The engine on a device that is late. Nothing may be read or sent before the device has made it,
// and no memory used again while the device may still need it: else the bits are not the judge's.
#include <gtest/gtest.h>

#include "support/engine_run.hpp"
#include "support/lazy_device.hpp"
#include "world/fake_world.hpp"

namespace rhizome::tests {
namespace {

using namespace std::chrono_literals;
using engine::Recompute;
using schedule::Style;

constexpr RunLength length{.steps = 3, .evaluate_interval = 1, .evaluation_microbatches = 3};

const SmallOptions options{
    .tying = model::Tying::tied, .dropout = 0.2, .dtype = DType::f32, .rows = 2, .lanes = {6, 3}};

struct Case {
    std::int32_t workers;
    Arrangement arrangement;
};

void PrintTo(const Case& each, std::ostream* out) { *out << to_text(each.arrangement); }

class Late : public testing::TestWithParam<Case> {};

TEST_P(Late, DevicesLeaveTheBitsOfTheJudge) {
    const model::Network network = network_of(options);
    const MemoryText text = small_text();
    const Subject subject{network, text, options.rows, options.lanes};
    const WorkerEnd expected = run_judge(subject, length);
    for (const Nanoseconds delay : {1us, 30us, 1000us}) {
        std::vector<WorkerEnd> ends(static_cast<std::size_t>(GetParam().workers));
        const auto outcomes = world::run_fake_world(
            {.workers = GetParam().workers, .seed = 3}, [&](world::World& world) {
                const auto inner = device::make_reference_device(1);
                LazyDevice device{*inner, world.clock(), delay};
                ends[world.self().index()] =
                    run_worker(world, device, subject, GetParam().arrangement, length);
            });
        for (std::size_t w = 0; w < ends.size(); ++w) {
            SCOPED_TRACE("worker " + std::to_string(w) + ", " + std::to_string(delay.count()));
            if (outcomes[w].error) std::rethrow_exception(outcomes[w].error);
            EXPECT_EQ(ends[w].end.status, CommStatus::ok);
            EXPECT_EQ(ends[w].trace.losses, expected.trace.losses);
            EXPECT_EQ(ends[w].trace.norms, expected.trace.norms);
            EXPECT_EQ(ends[w].trace.evaluations, expected.trace.evaluations);
        }
        EXPECT_EQ(ends.front().chunks, expected.chunks);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Late,
    testing::Values(
        Case{1, {}},
        // One worker alone has parts; the spare waits for them.
        Case{2, {.owners = 1}}, Case{3, {.depths = {3}}},
        Case{3, {.depths = {1, 1, 1}, .owners = 1}},
        Case{2, {.depths = {2}, .parts = 2, .style = Style::interleaved}},
        Case{4, {.depths = {2, 1}, .style = Style::zero_bubble_h1, .recompute = Recompute::all}},
        Case{4, {.depths = {4}, .style = Style::gpipe, .owners = 4}}));

TEST(LazyDevices, DoNothingBeforeTheirTime) {
    const auto inner = device::make_reference_device(1);
    ManualClock clock;
    LazyDevice device{*inner, clock, 5us};
    const auto stream = device.make_stream();
    std::int32_t number = 7;
    const device::Memory memory = device.allocate(4);
    const device::Tensor tensor = memory.at(0, {"number", Shape{1}, DType::i32});
    stream->upload(tensor, std::as_bytes(std::span{&number, 1}));
    const auto event = stream->record();
    number = 8;  // too early
    std::int32_t found = 0;
    stream->download(std::as_writable_bytes(std::span{&found, 1}), tensor);
    EXPECT_FALSE(event->done());
    clock.advance(5us);
    EXPECT_TRUE(event->done());
    EXPECT_EQ(found, 0);  // queued behind the event
    stream->synchronize();
    EXPECT_EQ(found, 8);
}

}  // namespace
}  // namespace rhizome::tests
