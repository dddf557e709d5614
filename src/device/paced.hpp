// Any device with the timing of a described accelerator: results are the inner device's, at once,
// but events happen when the accelerator would have got there. So many workers on few cores behave
// in time like as many machines, as long as the real mathematics is small beside the described
// times.
#pragma once

#include <vector>

#include "core/clock.hpp"
#include "device/device.hpp"

namespace rhizome::device {

/// Seconds of one microbatch through one layer.
struct LayerPace {
    double forward_s;
    double backward_input_s;
    double backward_weight_s;
};

struct Pace {
    std::vector<LayerPace> layers;
    double update_s_per_element = 0;  // of the optimizer
};

/// Stream::begin says what takes time; whatever follows until the next begin belongs to it.
/// Blocking calls sleep, so they need a clock that runs by itself. `inner` and the clock must
/// outlive it.
[[nodiscard]] std::unique_ptr<Device> make_paced_device(Device& inner, const Pace& pace,
                                                        const Clock& clock);

}  // namespace rhizome::device
