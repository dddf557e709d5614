// Measuring layers, on a device whose times are known: the paced one, on a clock of its own.
#include "engine/layer_times.hpp"

#include <gtest/gtest.h>

#include "device/paced.hpp"
#include "model/gpt.hpp"

namespace rhizome::engine {
namespace {

using namespace std::chrono_literals;

/// Each look at it takes a microsecond.
class TickingClock final : public Clock {
  public:
    [[nodiscard]] Nanoseconds now() const override { return now_ += 1us; }

  private:
    mutable Nanoseconds now_{0};
};

constexpr std::int32_t rows = 2;

model::Network small_gpt(model::Tying tying, DType dtype) {
    return model::make_gpt({.blocks = 3,
                            .channels = 8,
                            .heads = 2,
                            .context = 5,
                            .vocabulary = 11,
                            .tying = tying,
                            .dropout = 0.1},
                           rows, dtype, 50);
}

class LayerTimesOf : public testing::TestWithParam<std::tuple<model::Tying, DType>> {
  protected:
    model::Network network = small_gpt(std::get<0>(GetParam()), std::get<1>(GetParam()));
    std::vector<TensorSpec> fields{{"tokens", Shape{5}, DType::i32},
                                   {"targets", Shape{5}, DType::i32}};
    MeasuringConfig config{.fields = fields, .rows = rows, .token_limit = 11, .seconds = 0};
    std::unique_ptr<device::Device> computing = device::make_reference_device(1);
    TickingClock clock;
};

TEST_P(LayerTimesOf, ADeviceAreThoseThatItTakes) {
    device::Pace pace{.layers = {}, .update_s_per_element = 1e-7};
    for (std::int32_t i = 0; i < network.size(); ++i) {
        // Blocks, which do the same work, take the same time.
        const double scale = i == 0 ? 1 : i <= 3 ? 2 : 1 + i;
        pace.layers.push_back({1e-5 * scale, 2e-5 * scale, 4e-5 * scale});
    }
    const auto paced = device::make_paced_device(*computing, pace, clock);
    const std::vector<LayerTimes> times = measure_layers(*paced, network, config, clock);
    ASSERT_EQ(times.size(), pace.layers.size());
    constexpr double looks_s = 5e-6;
    for (std::size_t i = 0; i < times.size(); ++i) {
        EXPECT_NEAR(times[i].forward_s, pace.layers[i].forward_s, looks_s) << i;
        EXPECT_NEAR(times[i].backward_input_s, pace.layers[i].backward_input_s, looks_s) << i;
        EXPECT_NEAR(times[i].backward_weight_s, pace.layers[i].backward_weight_s, looks_s) << i;
        const double update_s =
            1e-7 * static_cast<double>(owned_elements(network.table().layers[i]));
        EXPECT_NEAR(times[i].update_s, update_s, 0.1 * update_s + 10 * looks_s) << i;
    }
}

TEST_P(LayerTimesOf, ARealDeviceAreSomething) {
    const SteadyClock steady;
    for (const LayerTimes& times : measure_layers(*computing, network, config, steady)) {
        EXPECT_GT(times.forward_s, 0);
        EXPECT_GT(times.backward_input_s, 0);
        EXPECT_GT(times.backward_weight_s, 0);
    }
}

INSTANTIATE_TEST_SUITE_P(Networks, LayerTimesOf,
                         testing::Combine(testing::Values(model::Tying::tied, model::Tying::untied),
                                          testing::Values(DType::f32, DType::f64)));

}  // namespace
}  // namespace rhizome::engine
