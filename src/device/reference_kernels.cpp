#include "device/reference_kernels.hpp"

#include <array>
#include <cmath>
#include <numbers>
#include <vector>

namespace rhizome::device::reference {
namespace {

constexpr double gelu_cubic = 0.044715;
constexpr double gelu_outer = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)

/// (1 + tanh(u)) / 2 of the tanh form's argument u, which is the logistic function of 2u.
template <class T>
T gelu_gate(T x) {
    const T twice_u = T(2 * gelu_outer) * (x + T(gelu_cubic) * x * x * x);
    return T{1} / (T{1} + std::exp(-twice_u));
}

}  // namespace

template <class T>
void dropout(ThreadPool& pool, T* out, const T* x, std::int64_t elements, const Dropout& dropout) {
    const Mask<T> mask{dropout};
    pool.run(elements, [&](std::int64_t first, std::int64_t last) {
        mask.apply(out + first, x + first, first, last - first);
    });
}

template <class T>
void gelu(ThreadPool& pool, T* out, const T* x, std::int64_t elements) {
    pool.run(elements, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i) out[i] = x[i] * gelu_gate(x[i]);
    });
}

template <class T>
void gelu_backward(ThreadPool& pool, T* d_x, const T* d_out, const T* x, std::int64_t elements) {
    pool.run(elements, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i) {
            const T gate = gelu_gate(x[i]);
            const T d_twice_u = T(2 * gelu_outer) * (T{1} + T(3 * gelu_cubic) * x[i] * x[i]);
            d_x[i] = d_out[i] * (gate + x[i] * gate * (T{1} - gate) * d_twice_u);
        }
    });
}

template <class T>
void norm(ThreadPool& pool, Matrix<T> out, T* mean, T* inverse_deviation, Matrix<T> x,
          const T* weight, const T* bias) {
    constexpr T epsilon = T(1e-5);
    pool.run(x.rows, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t r = first; r < last; ++r) {
            T sum = 0;
            for (std::int64_t c = 0; c < x.columns; ++c) sum += x(r, c);
            const T middle = sum / T(x.columns);
            T squares = 0;
            for (std::int64_t c = 0; c < x.columns; ++c) {
                squares += (x(r, c) - middle) * (x(r, c) - middle);
            }
            const T inverse = T{1} / std::sqrt(squares / T(x.columns) + epsilon);
            for (std::int64_t c = 0; c < x.columns; ++c) {
                out(r, c) = (x(r, c) - middle) * inverse * weight[c] + bias[c];
            }
            mean[r] = middle;
            inverse_deviation[r] = inverse;
        }
    });
}

template <class T>
void norm_backward_input(ThreadPool& pool, Matrix<T> d_x, Matrix<T> d_out, Matrix<T> x,
                         const T* mean, const T* inverse_deviation, const T* weight) {
    pool.run(x.rows, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t r = first; r < last; ++r) {
            // With z the normalised row and g its gradient, the two projections that normalising
            // takes out of the row: d_x = (g - mean(g) - z mean(g z)) / deviation.
            T sum_g = 0;
            T sum_gz = 0;
            for (std::int64_t c = 0; c < x.columns; ++c) {
                const T g = d_out(r, c) * weight[c];
                sum_g += g;
                sum_gz += g * ((x(r, c) - mean[r]) * inverse_deviation[r]);
            }
            const T mean_g = sum_g / T(x.columns);
            const T mean_gz = sum_gz / T(x.columns);
            for (std::int64_t c = 0; c < x.columns; ++c) {
                const T z = (x(r, c) - mean[r]) * inverse_deviation[r];
                d_x(r, c) = (d_out(r, c) * weight[c] - mean_g - z * mean_gz) * inverse_deviation[r];
            }
        }
    });
}

template <class T>
void norm_backward_weight(ThreadPool& pool, T* d_weight, T* d_bias, Matrix<T> d_out, Matrix<T> x,
                          const T* mean, const T* inverse_deviation) {
    pool.run(x.columns, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t r = 0; r < x.rows; ++r) {
            for (std::int64_t c = first; c < last; ++c) {
                d_weight[c] += d_out(r, c) * ((x(r, c) - mean[r]) * inverse_deviation[r]);
                d_bias[c] += d_out(r, c);
            }
        }
    });
}

template <class T>
void add_rows(ThreadPool& pool, T* sums, Matrix<T> x) {
    pool.run(x.columns, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t r = 0; r < x.rows; ++r) {
            for (std::int64_t c = first; c < last; ++c) sums[c] += x(r, c);
        }
    });
}

template <class T>
double cross_entropy(ThreadPool& pool, Matrix<T> logits, const std::int32_t* targets,
                     double gradient_scale) {
    std::vector<double> losses(static_cast<std::size_t>(logits.rows));
    pool.run(logits.rows, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t r = first; r < last; ++r) {
            ENSURE(targets[r] >= 0 && targets[r] < logits.columns);
            T largest = logits(r, 0);
            for (std::int64_t v = 1; v < logits.columns; ++v) {
                largest = std::max(largest, logits(r, v));
            }
            const T of_target = logits(r, targets[r]) - largest;
            T sum = 0;
            for (std::int64_t v = 0; v < logits.columns; ++v) {
                logits(r, v) = std::exp(logits(r, v) - largest);
                sum += logits(r, v);
            }
            losses[static_cast<std::size_t>(r)] = std::log(sum) - of_target;
            const T scale = T(gradient_scale);
            for (std::int64_t v = 0; v < logits.columns; ++v) {
                const T target = v == targets[r] ? T{1} : T{0};
                logits(r, v) = (logits(r, v) / sum - target) * scale;
            }
        }
    });
    double loss = 0;
    for (const double row : losses) loss += row;
    return loss;
}

#define RHIZOME_INSTANTIATE(T)                                                                \
    template void dropout(ThreadPool&, T*, const T*, std::int64_t, const Dropout&);           \
    template void gelu(ThreadPool&, T*, const T*, std::int64_t);                              \
    template void gelu_backward(ThreadPool&, T*, const T*, const T*, std::int64_t);           \
    template void norm(ThreadPool&, Matrix<T>, T*, T*, Matrix<T>, const T*, const T*);        \
    template void norm_backward_input(ThreadPool&, Matrix<T>, Matrix<T>, Matrix<T>, const T*, \
                                      const T*, const T*);                                    \
    template void norm_backward_weight(ThreadPool&, T*, T*, Matrix<T>, Matrix<T>, const T*,   \
                                       const T*);                                             \
    template void add_rows(ThreadPool&, T*, Matrix<T>);                                       \
    template double cross_entropy(ThreadPool&, Matrix<T>, const std::int32_t*, double);
RHIZOME_INSTANTIATE(float)
RHIZOME_INSTANTIATE(double)
#undef RHIZOME_INSTANTIATE

}  // namespace rhizome::device::reference
