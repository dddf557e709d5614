// Memory is planned before anything is allocated, to the byte, and never changes afterwards.
#include <gtest/gtest.h>

#include "support/engine_run.hpp"
#include "world/fake_world.hpp"

namespace rhizome::tests {
namespace {

using engine::Recompute;
using schedule::Style;

/// Counts what is asked of another device.
class CountingDevice final : public device::Device {
  public:
    explicit CountingDevice(device::Device& inner) : inner_{inner} {}

    [[nodiscard]] device::Memory allocate(std::int64_t bytes) override {
        bytes_ += bytes;
        ++calls_;
        return inner_.allocate(bytes);
    }
    [[nodiscard]] std::unique_ptr<device::Stream> make_stream() override {
        return inner_.make_stream();
    }
    [[nodiscard]] std::string fingerprint() const override { return inner_.fingerprint(); }

    [[nodiscard]] std::int64_t bytes() const { return bytes_; }
    [[nodiscard]] int calls() const { return calls_; }

  private:
    device::Device& inner_;
    std::int64_t bytes_ = 0;
    int calls_ = 0;
};

struct Case {
    std::string name;
    std::int32_t workers;
    Arrangement arrangement;
    LaneShape lanes{6, 3};
    std::int32_t evaluation_microbatches = 3;
};

void PrintTo(const Case& each, std::ostream* out) { *out << each.name; }

class Memory : public testing::TestWithParam<Case> {};

TEST_P(Memory, IsAllocatedAsPlannedAndNeverAgain) {
    const Case& each = GetParam();
    const SmallOptions options{
        .dropout = 0.1, .dtype = DType::f32, .lanes = each.lanes, .blocks = 5};
    const model::Network network = network_of(options);
    const MemoryText text = small_text();
    const auto outcomes =
        world::run_fake_world({.workers = each.workers}, [&](world::World& world) {
            const auto inner = device::make_reference_device(1);
            CountingDevice device{*inner};
            const engine::RunPlan plan = plan_of(each.arrangement, network.table(), world.members(),
                                                 options.lanes, each.evaluation_microbatches);
            const engine::MemoryPlan planned = engine::Assignment::plan_memory(
                network, text.fields(), plan, world.self(), options.rows);
            engine::Worker worker{device,
                                  network,
                                  text,
                                  &text,
                                  world,
                                  plan,
                                  {.seed = 1,
                                   .rows = options.rows,
                                   .optimizer = small_optimizer(),
                                   .patience = std::chrono::seconds{60}}};
            EXPECT_EQ(device.bytes(), planned.held) << "worker " << world.self().value();
            const int calls = device.calls();
            for (std::int32_t step = 0; step < 2; ++step) {
                ASSERT_EQ(worker.run_step(Step{step}, engine::vote::all).status, CommStatus::ok);
                if (!plan.evaluation) continue;
                ASSERT_EQ(worker.evaluate().status, CommStatus::ok);
            }
            ASSERT_EQ(worker.expect_finite_parameters(), CommStatus::ok);
            EXPECT_EQ(device.calls(), calls) << "worker " << world.self().value();
        });
    for (const auto& outcome : outcomes) {
        if (outcome.error) std::rethrow_exception(outcome.error);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Memory,
    testing::Values(
        Case{"alone", 1, {}}, Case{"alone with a spare", 2, {}},
        Case{"a spare that owns, another that owns", 3, {.owners = 3}},
        Case{"alone, recomputing", 1, {.recompute = Recompute::all}},
        Case{"three stages", 3, {.depths = {3}}},
        Case{"gpipe, recomputing",
             3,
             {.depths = {3}, .style = Style::gpipe, .recompute = Recompute::all}},
        Case{"zero bubble, one owner, a spare",
             5,
             {.depths = {4}, .style = Style::zero_bubble_h2, .owners = 1}},
        Case{"interleaved", 2, {.depths = {2}, .parts = 3, .style = Style::interleaved}},
        Case{"interleaved on one, recomputing",
             1,
             {.parts = 4, .style = Style::interleaved, .recompute = Recompute::all}},
        Case{"uneven pipelines, all own all", 6, {.depths = {3, 2}, .owners = 6}},
        Case{"lanes that meet late", 4, {.depths = {2, 2}}, {14, 7}},
        Case{"evaluations larger than steps", 3, {.depths = {3}, .owners = 1}, {1, 1}, 9},
        Case{"no evaluation", 4, {.depths = {1, 1, 1}}, {3, 3}, 0}),
    [](const auto& each) {
        std::string name;
        for (const char c : each.param.name) {
            if (std::isalnum(static_cast<unsigned char>(c)) != 0) name += c;
        }
        return name;
    });

}  // namespace
}  // namespace rhizome::tests
