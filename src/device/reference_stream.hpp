// The reference backend's stream by itself, for backends that do only some things in another way.
#pragma once

#include <memory>

#include "device/device.hpp"
#include "device/thread_pool.hpp"

namespace rhizome::device {

/// Does everything before the call returns. The pool must outlive it.
[[nodiscard]] std::unique_ptr<Stream> make_reference_stream(ThreadPool& pool);

}  // namespace rhizome::device
