// One worker's number, told to all.
#pragma once

#include "engine/worker.hpp"

namespace rhizome::engine {

struct Told {
    CommStatus status;
    std::int32_t number;  // the first member's
};

/// All workers must call it, between steps; what the first member gives is what all get.
[[nodiscard]] Told tell_all(Worker& worker, std::int32_t number);

}  // namespace rhizome::engine
