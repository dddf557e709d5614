// Which activations are computed again in backward instead of being kept.
#pragma once

#include <cstdint>

namespace rhizome::engine {

/// Changes memory and time, never a result.
enum class Recompute : std::uint8_t {
    none,
    all  // only what crosses from layer to layer is kept
};

}  // namespace rhizome::engine
