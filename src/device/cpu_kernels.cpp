#include "device/cpu_level.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <vector>

#include "core/error.hpp"
#include "device/cpu_vector.hpp"

namespace rhizome::device::cpu::RHIZOME_CPU_LEVEL {
namespace {

constexpr float gelu_cubic = 0.044715F;
/// 2 sqrt(2 / pi)
constexpr auto gelu_outer = static_cast<float>(2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);

/// (1 + tanh(u)) / 2 of the tanh form's argument u, which is the logistic function of 2u.
Floats gelu_gate(Floats x) {
    const Floats twice_u = gelu_outer * (x + gelu_cubic * x * x * x);
    return 1.0F / (1.0F + exp(-twice_u));
}

void gelu(ThreadPool& pool, float* out, const float* x, std::int64_t elements) {
    pool.run(elements, [&](std::int64_t first, std::int64_t last) {
        in_pieces(first, last, [&](std::int64_t i, auto count) {
            const Floats value = load_some(x + i, count);
            store_some(out + i, value * gelu_gate(value), count);
        });
    });
}

void gelu_backward(ThreadPool& pool, float* d_x, const float* d_out, const float* x,
                   std::int64_t elements) {
    pool.run(elements, [&](std::int64_t first, std::int64_t last) {
        in_pieces(first, last, [&](std::int64_t i, auto count) {
            const Floats value = load_some(x + i, count);
            const Floats gate = gelu_gate(value);
            const Floats d_twice_u = gelu_outer * (1.0F + 3 * gelu_cubic * value * value);
            const Floats slope = gate + value * gate * (1.0F - gate) * d_twice_u;
            store_some(d_x + i, load_some(d_out + i, count) * slope, count);
        });
    });
}

void norm(ThreadPool& pool, Extent extent, float* out, float* mean, float* inverse_deviation,
          const float* x, const float* weight, const float* bias) {
    constexpr float epsilon = 1e-5F;
    const std::int64_t columns = extent.columns;
    pool.run(extent.rows, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t r = first; r < last; ++r) {
            const float* const from = x + r * columns;
            float* const to = out + r * columns;
            Floats sum{};
            in_pieces(0, columns, [&](std::int64_t c, auto n) { sum += load_some(from + c, n); });
            const float middle = sum_of(sum) / static_cast<float>(columns);
            Floats squares{};
            in_pieces(0, columns, [&](std::int64_t c, auto n) {
                const Floats d = load_some(from + c, n, middle) - middle;
                squares += d * d;
            });
            const float variance = sum_of(squares) / static_cast<float>(columns);
            const float inverse = 1.0F / std::sqrt(variance + epsilon);
            in_pieces(0, columns, [&](std::int64_t c, auto n) {
                const Floats z = (load_some(from + c, n) - middle) * inverse;
                store_some(to + c, z * load_some(weight + c, n) + load_some(bias + c, n), n);
            });
            mean[r] = middle;
            inverse_deviation[r] = inverse;
        }
    });
}

void norm_backward_input(ThreadPool& pool, Extent extent, float* d_x, const float* d_out,
                         const float* x, const float* mean, const float* inverse_deviation,
                         const float* weight) {
    const std::int64_t columns = extent.columns;
    pool.run(extent.rows, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t r = first; r < last; ++r) {
            const float* const from = x + r * columns;
            const float* const d_from = d_out + r * columns;
            float* const to = d_x + r * columns;
            const float middle = mean[r];
            const float inverse = inverse_deviation[r];
            // What normalising takes out of the row: see reference_kernels.cpp.
            Floats sum_g{};
            Floats sum_gz{};
            in_pieces(0, columns, [&](std::int64_t c, auto n) {
                const Floats g = load_some(d_from + c, n) * load_some(weight + c, n);
                sum_g += g;
                sum_gz += g * ((load_some(from + c, n, middle) - middle) * inverse);
            });
            const float mean_g = sum_of(sum_g) / static_cast<float>(columns);
            const float mean_gz = sum_of(sum_gz) / static_cast<float>(columns);
            in_pieces(0, columns, [&](std::int64_t c, auto n) {
                const Floats z = (load_some(from + c, n) - middle) * inverse;
                const Floats g = load_some(d_from + c, n) * load_some(weight + c, n);
                store_some(to + c, (g - mean_g - z * mean_gz) * inverse, n);
            });
        }
    });
}

void norm_backward_weight(ThreadPool& pool, Extent extent, float* d_weight, float* d_bias,
                          const float* d_out, const float* x, const float* mean,
                          const float* inverse_deviation) {
    pool.run(extent.columns, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t r = 0; r < extent.rows; ++r) {
            const float* const from = x + r * extent.columns;
            const float* const d_from = d_out + r * extent.columns;
            in_pieces(first, last, [&](std::int64_t c, auto n) {
                const Floats z = (load_some(from + c, n) - mean[r]) * inverse_deviation[r];
                const Floats d = load_some(d_from + c, n);
                store_some(d_weight + c, load_some(d_weight + c, n) + d * z, n);
                store_some(d_bias + c, load_some(d_bias + c, n) + d, n);
            });
        }
    });
}

void add_rows(ThreadPool& pool, Extent extent, float* sums, const float* x) {
    pool.run(extent.columns, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t r = 0; r < extent.rows; ++r) {
            const float* const from = x + r * extent.columns;
            for (std::int64_t c = first; c < last; ++c) sums[c] += from[c];
        }
    });
}

void repeat_row(ThreadPool& pool, Extent extent, float* out, const float* row) {
    pool.run(extent.rows, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t r = first; r < last; ++r) {
            std::memcpy(out + r * extent.columns, row,
                        static_cast<std::size_t>(extent.columns) * sizeof(float));
        }
    });
}

double cross_entropy(ThreadPool& pool, Extent extent, float* logits, const std::int32_t* targets,
                     double gradient_scale) {
    const std::int64_t columns = extent.columns;
    const auto scale = static_cast<float>(gradient_scale);
    std::vector<double> losses(static_cast<std::size_t>(extent.rows));
    pool.run(extent.rows, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t r = first; r < last; ++r) {
            float* const row = logits + r * columns;
            ENSURE(targets[r] >= 0 && targets[r] < columns);
            const float target = row[targets[r]];
            const auto [largest, sum] = raise(row, columns);
            losses[static_cast<std::size_t>(r)] = std::log(sum) - (target - largest);
            const float factor = scale / sum;
            in_pieces(0, columns, [&](std::int64_t v, auto n) {
                store_some(row + v, load_some(row + v, n) * factor, n);
            });
            row[targets[r]] -= scale;
        }
    });
    double loss = 0;
    for (const double row : losses) loss += row;
    return loss;
}

}  // namespace

Raised raise(float* row, std::int64_t count) {
    constexpr float least = -std::numeric_limits<float>::infinity();
    Floats highest = all(least);
    in_pieces(0, count, [&](std::int64_t i, auto n) {
        highest = larger(highest, load_some(row + i, n, least));
    });
    const float largest = largest_of(highest);
    Floats sums{};
    in_pieces(0, count, [&](std::int64_t i, auto n) {
        const Floats p = exp(load_some(row + i, n, least) - largest);
        sums += p;
        store_some(row + i, p, n);
    });
    return {largest, sum_of(sums)};
}

const Kernels table{.gelu = gelu,
                    .gelu_backward = gelu_backward,
                    .norm = norm,
                    .norm_backward_input = norm_backward_input,
                    .norm_backward_weight = norm_backward_weight,
                    .add_rows = add_rows,
                    .repeat_row = repeat_row,
                    .cross_entropy = cross_entropy,
                    .attention = attention,
                    .attention_backward = attention_backward};

}  // namespace rhizome::device::cpu::RHIZOME_CPU_LEVEL
