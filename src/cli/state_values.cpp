#include "cli/state_values.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace rhizome::cli {
namespace {

template <class T>
T element_at(std::span<const std::byte> values, std::size_t place) {
    T value;
    std::memcpy(&value, values.data() + place * sizeof(T), sizeof(T));
    return value;
}

double number_at(std::span<const std::byte> values, DType dtype, std::size_t place) {
    return dtype == DType::f64 ? element_at<double>(values, place)
                               : double{element_at<float>(values, place)};
}

std::size_t count_of(std::span<const std::byte> values, DType dtype) {
    ENSURE(dtype == DType::f32 || dtype == DType::f64);
    return values.size() / static_cast<std::size_t>(bytes_of(dtype));
}

double distance(double a, double b) {
    if (std::isnan(a) && std::isnan(b)) return 0;
    if (a == b) return 0;  // two infinities as well
    const double difference = std::abs(a - b);
    return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

}  // namespace

void Statistics::add(std::span<const std::byte> values, DType dtype) {
    const std::size_t count = count_of(values, dtype);
    for (std::size_t i = 0; i < count; ++i) {
        const double value = number_at(values, dtype, i);
        ++elements_;
        if (!std::isfinite(value)) continue;
        ++finite_;
        least_ = std::min(least_, value);
        largest_ = std::max(largest_, value);
        sum_ += value;
        squares_ += value * value;
    }
}

std::optional<double> Statistics::mean() const {
    return if_any(sum_ / static_cast<double>(finite_));
}

std::optional<double> Statistics::rms() const {
    return if_any(std::sqrt(squares_ / static_cast<double>(finite_)));
}

std::vector<double> first_values(std::span<const std::byte> values, DType dtype,
                                 std::size_t count_max) {
    std::vector<double> first(std::min(count_max, count_of(values, dtype)));
    for (std::size_t i = 0; i < first.size(); ++i) first[i] = number_at(values, dtype, i);
    return first;
}

void Difference::add(std::span<const std::byte> a, std::span<const std::byte> b, DType dtype,
                     std::int64_t first_element) {
    ENSURE(a.size() == b.size());
    if (std::memcmp(a.data(), b.data(), a.size()) == 0) return;
    const std::size_t count = count_of(a, dtype);
    const auto bytes = static_cast<std::size_t>(bytes_of(dtype));
    for (std::size_t i = 0; i < count; ++i) {
        if (std::memcmp(a.data() + i * bytes, b.data() + i * bytes, bytes) == 0) continue;
        add_one(number_at(a, dtype, i), number_at(b, dtype, i),
                first_element + static_cast<std::int64_t>(i));
    }
}

void Difference::add_one(double a, double b, std::int64_t element) {
    const double absolute = distance(a, b);
    if (tolerance_ && absolute <= *tolerance_) return;
    ++differing_;
    if (!first_) first_ = element;
    if (!largest_at_ || absolute > largest_absolute_) {
        largest_absolute_ = absolute;
        largest_at_ = element;
    }
    const double relative = std::isfinite(absolute) && absolute > 0
                                ? absolute / std::max(std::abs(a), std::abs(b))
                                : absolute;
    largest_relative_ = std::max(largest_relative_, relative);
}

std::string place_text(const Shape& shape, std::int64_t element) {
    std::string text;
    for (std::size_t d = shape.dimensions(); d-- > 0;) {
        const std::string index = std::to_string(element % shape[d]);
        element /= shape[d];
        text = text.empty() ? index : index + ", " + text;
    }
    return "[" + text + "]";
}

}  // namespace rhizome::cli
