// What oneDNN's matmul primitive reaches on one core, besides the call that the cpu backend makes.
#pragma once

#include <cstdint>

namespace rhizome::bench {

struct MatmulShape {
    std::int64_t rows;
    std::int64_t columns;
    std::int64_t inner;
    // As the factors lie in memory: with rows and columns exchanged, or not.
    bool left_transposed;
    bool right_transposed;
};

enum class MatmulKind : std::uint8_t {
    packed_fp32,  // factors in the order of oneDNN's choice, made once before
    bf16,         // factors of bf16, sums of fp32
    packed_bf16,
};

/// Median seconds of out = left right on the calling thread; 0 where the processor cannot.
[[nodiscard]] double matmul_seconds(const MatmulShape& shape, MatmulKind kind);

}  // namespace rhizome::bench
