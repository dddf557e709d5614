// Numbers about the values of tensors, and about where two tensors differ. Pure: bytes in, numbers
// out; elements are f32 or f64 and counted from a tensor's beginning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/shape.hpp"

namespace rhizome::cli {

class Statistics {
  public:
    void add(std::span<const std::byte> values, DType dtype);

    [[nodiscard]] std::int64_t elements() const { return elements_; }
    [[nodiscard]] std::int64_t non_finite() const { return elements_ - finite_; }
    /// Of the finite elements; of none of them where there are none.
    [[nodiscard]] std::optional<double> least() const { return if_any(least_); }
    [[nodiscard]] std::optional<double> largest() const { return if_any(largest_); }
    [[nodiscard]] std::optional<double> mean() const;
    [[nodiscard]] std::optional<double> rms() const;

  private:
    [[nodiscard]] std::optional<double> if_any(double value) const {
        return finite_ > 0 ? std::optional{value} : std::nullopt;
    }

    std::int64_t elements_ = 0;
    std::int64_t finite_ = 0;
    double least_ = std::numeric_limits<double>::infinity();
    double largest_ = -std::numeric_limits<double>::infinity();
    double sum_ = 0;
    double squares_ = 0;
};

/// As doubles, at most so many.
[[nodiscard]] std::vector<double> first_values(std::span<const std::byte> values, DType dtype,
                                               std::size_t count_max);

/// Two elements differ if their bits do. With a tolerance they differ if their distance is larger
/// than that; no distance is between two NaNs, and between a NaN and a number it is infinite.
class Difference {
  public:
    explicit Difference(std::optional<double> tolerance = {}) : tolerance_{tolerance} {}

    /// Equally many of both, from that element on.
    void add(std::span<const std::byte> a, std::span<const std::byte> b, DType dtype,
             std::int64_t first_element);

    [[nodiscard]] std::int64_t differing() const { return differing_; }
    /// Of the elements that differ. Relative to the larger of the two.
    [[nodiscard]] double largest_absolute() const { return largest_absolute_; }
    [[nodiscard]] double largest_relative() const { return largest_relative_; }
    /// The first element that differs, and the one with the largest absolute difference.
    [[nodiscard]] std::optional<std::int64_t> first() const { return first_; }
    [[nodiscard]] std::optional<std::int64_t> largest_at() const { return largest_at_; }

  private:
    void add_one(double a, double b, std::int64_t element);

    std::optional<double> tolerance_;
    std::int64_t differing_ = 0;
    double largest_absolute_ = 0;
    double largest_relative_ = 0;
    std::optional<std::int64_t> first_{};
    std::optional<std::int64_t> largest_at_{};
};

/// Where an element of a row-major tensor is: "[3, 17]".
[[nodiscard]] std::string place_text(const Shape& shape, std::int64_t element);

}  // namespace rhizome::cli
