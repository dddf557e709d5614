#include "world/world.hpp"

#include <algorithm>

namespace rhizome::world {

CommStatus wait_all(World& world, std::span<const Ticket> tickets, Nanoseconds deadline) {
    for (const Ticket ticket : tickets) {
        while (true) {
            if (const auto status = world.poll(ticket)) {
                if (*status != CommStatus::ok) return *status;
                break;
            }
            if (world.clock().now() >= deadline) return CommStatus::timed_out;
            world.rest(deadline);
        }
    }
    return CommStatus::ok;
}

}  // namespace rhizome::world
