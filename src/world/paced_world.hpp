// Any world with the links of a described network: a message leaves when such a link would have
// delivered it. The companion of the paced device (device/paced.hpp).
#pragma once

#include <memory>

#include "world/world.hpp"

namespace rhizome::world {

/// Each pair of workers has a link of its own in each direction. A message follows the one before
/// it, takes its size divided by the rate, and arrives after the latency.
struct LinkPace {
    double latency_s = 0;
    double bytes_per_s = 0;  // 0: no limit
};

/// `inner` must outlive it.
[[nodiscard]] std::unique_ptr<World> make_paced_world(World& inner, const LinkPace& pace);

}  // namespace rhizome::world
