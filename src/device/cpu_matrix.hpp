// Matrix products of single precision by oneDNN.
//
// What oneDNN does for a shape depends on the shape and on the processor's instruction set, both in
// the fingerprint, and never on a measurement. One product is computed by one thread.
#pragma once

#include <cstdint>
#include <string>

#include "device/device.hpp"

namespace rhizome::device::cpu {

enum class Order : std::uint8_t { plain, transposed };

/// Of a product: as it lies in memory, row-major, and whether it is meant with rows and columns
/// exchanged.
struct Factor {
    const float* data;
    std::int64_t stride;  // from row to row in memory
    Order order = Order::plain;
};

struct Product {
    std::int64_t rows;
    std::int64_t columns;
    std::int64_t inner;
    float scale = 1.0F;
    float keep = 0.0F;  // of what was there before
};

/// out (rows, columns) = scale a (rows, inner) b (inner, columns) + keep out.
void multiply(const Product& product, float* out, std::int64_t out_stride, Factor a, Factor b);

/// "oneDNN 2.6.3 avx512_core_bf16"
[[nodiscard]] std::string matrix_fingerprint();

}  // namespace rhizome::device::cpu
