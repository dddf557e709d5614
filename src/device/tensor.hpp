// Tensors with memory: a borrowed view, and the move-only owner that views borrow from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "core/shape.hpp"

namespace rhizome::device {

/// A dense row-major tensor in some device's memory, which outlives it. Cheap to copy. Operations
/// take what they write first and what they only read after it.
struct Tensor {
    std::byte* data = nullptr;
    Shape shape;
    DType dtype = DType::f32;

    [[nodiscard]] std::int64_t elements() const { return shape.elements(); }
    [[nodiscard]] std::int64_t bytes() const { return elements() * bytes_of(dtype); }

    /// Elements [first, first + count) as a vector.
    [[nodiscard]] Tensor slice(std::int64_t first, std::int64_t count) const {
        ENSURE(first >= 0 && count > 0 && first + count <= elements());
        return {data + first * bytes_of(dtype), Shape{count}, dtype};
    }
};

/// Owns one piece of a device's memory. Its end needs no peer and cannot fail.
class Memory {
  public:
    using Release = std::function<void(std::byte*)>;

    Memory() = default;
    Memory(std::byte* data, std::int64_t bytes, Release release)
        : data_{data}, bytes_{bytes}, release_{std::move(release)} {}
    ~Memory() {
        if (data_ != nullptr) release_(data_);
    }
    Memory(Memory&& other) noexcept
        : data_{std::exchange(other.data_, nullptr)},
          bytes_{std::exchange(other.bytes_, 0)},
          release_{std::move(other.release_)} {}
    Memory& operator=(Memory&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        std::swap(release_, other.release_);
        return *this;
    }

    [[nodiscard]] std::int64_t bytes() const { return bytes_; }
    /// A view of `spec` that begins `offset` bytes in.
    [[nodiscard]] Tensor at(std::int64_t offset, const TensorSpec& spec) const {
        ENSURE(offset >= 0 && offset + spec.bytes() <= bytes_);
        return {data_ + offset, spec.shape, spec.dtype};
    }

  private:
    std::byte* data_ = nullptr;
    std::int64_t bytes_ = 0;
    Release release_;
};

}  // namespace rhizome::device
