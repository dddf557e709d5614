// The cpu backend's loops over single precision, besides matrix products. Shapes and meaning are
// those of device.hpp. Rows are shared out among threads; what adds up over rows is shared out by
// columns, so that threads change no sum.
//
// They are compiled for more than one level of instructions, and the processor decides when the
// program runs. All levels give the same bits: sixteen sums are sixteen sums in registers of any
// width (cpu_vector.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "device/cpu_matrix.hpp"
#include "device/host_tensor.hpp"
#include "device/thread_pool.hpp"

namespace rhizome::device::cpu {

/// Row-major, without gaps.
struct Extent {
    std::int64_t rows;
    std::int64_t columns;
};

/// Of one level.
struct Kernels {
    void (*gelu)(ThreadPool& pool, float* out, const float* x, std::int64_t elements);
    void (*gelu_backward)(ThreadPool& pool, float* d_x, const float* d_out, const float* x,
                          std::int64_t elements);

    void (*norm)(ThreadPool& pool, Extent extent, float* out, float* mean, float* inverse_deviation,
                 const float* x, const float* weight, const float* bias);
    void (*norm_backward_input)(ThreadPool& pool, Extent extent, float* d_x, const float* d_out,
                                const float* x, const float* mean, const float* inverse_deviation,
                                const float* weight);
    void (*norm_backward_weight)(ThreadPool& pool, Extent extent, float* d_weight, float* d_bias,
                                 const float* d_out, const float* x, const float* mean,
                                 const float* inverse_deviation);

    /// sums (columns) += the rows of x, one after the other.
    void (*add_rows)(ThreadPool& pool, Extent extent, float* sums, const float* x);
    /// Every row of out becomes `row`.
    void (*repeat_row)(ThreadPool& pool, Extent extent, float* out, const float* row);

    /// Returns the sum of the rows' losses.
    double (*cross_entropy)(ThreadPool& pool, Extent extent, float* logits,
                            const std::int32_t* targets, double gradient_scale);

    void (*attention)(ThreadPool& pool, const AttentionShape& shape, float* out, float* log_sum,
                      const float* qkv, const std::optional<Dropout>& dropout);
    void (*attention_backward)(ThreadPool& pool, const AttentionShape& shape, float* d_qkv,
                               const float* d_out, const float* out, const float* log_sum,
                               const float* qkv, const std::optional<Dropout>& dropout);
};

/// Those that this processor has the instructions for, narrowest first; at least one.
[[nodiscard]] std::span<const Kernels* const> kernels_here();

}  // namespace rhizome::device::cpu
