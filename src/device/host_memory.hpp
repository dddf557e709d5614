// Memory of the backends that compute on the host.
#pragma once

#include <cstdint>

#include "device/device.hpp"

namespace rhizome::device {

/// Large pieces lie in huge pages where the system has them: thousands of times fewer page faults
/// when they are touched first, and fewer misses of the address cache in matrix products. Throws
/// std::bad_alloc.
[[nodiscard]] Memory allocate_on_host(std::int64_t bytes);

}  // namespace rhizome::device
