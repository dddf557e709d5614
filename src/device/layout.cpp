#include "device/device.hpp"

namespace rhizome::device {

Layout::Layout(std::span<const TensorSpec> specs) {
    for (const TensorSpec& spec : specs) {
        offsets.push_back(bytes);
        bytes += (spec.bytes() + alignment - 1) / alignment * alignment;
    }
}

}  // namespace rhizome::device
