// Shapes and element types of tensors as plain data, for rooms that compute with them and for those
// that only plan, count or store.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "core/error.hpp"

namespace rhizome {

enum class DType : std::uint8_t { f32, f64, i32 };

[[nodiscard]] constexpr std::int64_t bytes_of(DType type) { return type == DType::f64 ? 8 : 4; }

/// Extents of a row-major tensor, outermost first. Invariant: every extent is positive.
class Shape {
  public:
    static constexpr std::size_t dimensions_max = 4;

    constexpr Shape() = default;  // a scalar
    constexpr Shape(std::initializer_list<std::int64_t> extents) {
        ENSURE(extents.size() <= dimensions_max);
        for (const std::int64_t extent : extents) {
            ENSURE(extent > 0);
            extents_[dimensions_++] = extent;
        }
    }

    [[nodiscard]] constexpr std::size_t dimensions() const { return dimensions_; }
    [[nodiscard]] constexpr std::int64_t operator[](std::size_t i) const {
        ENSURE(i < dimensions_);
        return extents_[i];
    }
    [[nodiscard]] constexpr std::int64_t elements() const {
        std::int64_t count = 1;
        for (std::size_t i = 0; i < dimensions_; ++i) count *= extents_[i];
        return count;
    }
    friend constexpr bool operator==(const Shape&, const Shape&) = default;

  private:
    // Invariant: unused places stay 0, so that == can compare all.
    std::array<std::int64_t, dimensions_max> extents_{};
    std::size_t dimensions_ = 0;
};

/// A tensor before it has memory.
struct TensorSpec {
    std::string name;
    Shape shape;
    DType dtype = DType::f32;

    [[nodiscard]] std::int64_t bytes() const { return shape.elements() * bytes_of(dtype); }
    friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

}  // namespace rhizome
