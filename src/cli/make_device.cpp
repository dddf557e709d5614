#include "cli/make_device.hpp"

namespace rhizome::cli {

std::unique_ptr<device::Device> make_device(const RunConfig& config) {
    auto device = config.device == DeviceKind::reference
                      ? device::make_reference_device(config.threads)
                      : device::make_cpu_device(config.threads);
    return config.precision == device::Precision::bf16 ? device::make_bf16_device(std::move(device))
                                                       : std::move(device);
}

std::int64_t workspace_tensors(const RunConfig& config) {
    return config.precision == device::Precision::bf16 ? 3 : 1;
}

}  // namespace rhizome::cli
