// Tensors in host memory, for the backends that compute there.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/device.hpp"

namespace rhizome::device {

template <class T>
constexpr DType type_for = std::is_same_v<T, double> ? DType::f64 : DType::f32;

/// Of that type.
template <class T>
[[nodiscard]] T* numbers(const Tensor& tensor) {
    ENSURE(tensor.dtype == type_for<T>);
    return reinterpret_cast<T*>(tensor.data);
}

[[nodiscard]] inline const std::int32_t* integers(const Tensor& tensor) {
    ENSURE(tensor.dtype == DType::i32);
    return reinterpret_cast<const std::int32_t*>(tensor.data);
}

[[nodiscard]] inline std::int64_t last_extent(const Tensor& tensor) {
    return tensor.shape[tensor.shape.dimensions() - 1];
}

struct AttentionShape {
    std::int64_t rows;
    std::int64_t positions;
    std::int64_t channels;
    std::int64_t heads;
};
/// Checks that the tensors of one call fit together.
[[nodiscard]] inline AttentionShape attention_shape(const Tensor& out, const Tensor& log_sum,
                                                    const Tensor& qkv) {
    const AttentionShape shape{out.shape[0], out.shape[1], out.shape[2], log_sum.shape[1]};
    ENSURE(qkv.shape == (Shape{shape.rows, shape.positions, 3 * shape.channels}));
    ENSURE(log_sum.shape == (Shape{shape.rows, shape.heads, shape.positions}));
    ENSURE(shape.channels % shape.heads == 0);
    return shape;
}

}  // namespace rhizome::device
