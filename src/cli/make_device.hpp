// The device that a configuration names.
#pragma once

#include <memory>

#include "cli/run_config.hpp"
#include "device/device.hpp"

namespace rhizome::cli {

/// With the run's precision and threads; for device=paced the cpu, which computes below it. Throws
/// ConfigError.
[[nodiscard]] std::unique_ptr<device::Device> make_device(const RunConfig& config);

/// How many tensors of the largest size an operation of that device takes for itself (device.hpp).
[[nodiscard]] std::int64_t workspace_tensors(const RunConfig& config);

}  // namespace rhizome::cli
