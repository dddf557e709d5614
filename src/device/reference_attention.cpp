// Causal self-attention of the reference backend, head by head, with the whole T x T matrix of one
// head in memory: the plainest form, against which later ones are judged.
#include <cmath>
#include <vector>

#include "device/reference_kernels.hpp"

namespace rhizome::device::reference {
namespace {

/// What one head of one row sees.
template <class T>
struct Head {
    Head(const AttentionShape& shape, std::int64_t number, T* qkv_data)
        : row{number / shape.heads},
          head{number % shape.heads},
          positions{shape.positions},
          width{shape.channels / shape.heads},
          channels{shape.channels},
          first_probability{number * positions * positions},
          scale{static_cast<T>(1.0 / std::sqrt(static_cast<double>(width)))},
          q{part(qkv_data, 0)},
          k{part(qkv_data, 1)},
          v{part(qkv_data, 2)} {}

    /// This head's queries, keys or values: (T, width) inside (B, T, 3C).
    [[nodiscard]] Matrix<T> part(T* qkv_data, std::int64_t which) const {
        return {qkv_data + row * positions * 3 * channels + which * channels + head * width,
                positions, width, 3 * channels};
    }
    /// This head's share of (B, T, C).
    [[nodiscard]] Matrix<T> of_output(T* data) const {
        return {data + row * positions * channels + head * width, positions, width, channels};
    }

    std::int64_t row;
    std::int64_t head;
    std::int64_t positions;
    std::int64_t width;
    std::int64_t channels;
    std::int64_t first_probability;  // number of this head's first element in (B, H, T, T)
    T scale;
    Matrix<T> q;
    Matrix<T> k;
    Matrix<T> v;
};

template <class T>
Matrix<T> square(std::vector<T>& numbers, std::int64_t size) {
    return {numbers.data(), size, size, size};
}

/// probabilities (T, T) after dropout, 0 above the diagonal.
template <class T>
void apply_mask(Matrix<T> probabilities, std::int64_t first,
                const std::optional<Dropout>& dropout) {
    if (!dropout) return;
    const Mask<T> mask{*dropout};
    for (std::int64_t i = 0; i < probabilities.rows; ++i) {
        T* row = &probabilities(i, 0);
        mask.apply(row, row, first + i * probabilities.columns, i + 1);
    }
}

}  // namespace

template <class T>
void attention(ThreadPool& pool, const AttentionShape& shape, T* out, T* log_sum, T* qkv,
               const std::optional<Dropout>& dropout) {
    pool.run(shape.rows * shape.heads, [&](std::int64_t first, std::int64_t last) {
        ThreadPool alone{1};
        std::vector<T> numbers(static_cast<std::size_t>(shape.positions * shape.positions));
        const Matrix<T> p = square(numbers, shape.positions);
        for (std::int64_t number = first; number < last; ++number) {
            const Head<T> head{shape, number, qkv};
            multiply(alone, p, head.q, head.k.transposed(), Start::zero);
            for (std::int64_t i = 0; i < p.rows; ++i) {
                T largest = p(i, 0) * head.scale;
                for (std::int64_t j = 0; j <= i; ++j) {
                    p(i, j) *= head.scale;
                    largest = std::max(largest, p(i, j));
                }
                T sum = 0;
                for (std::int64_t j = 0; j <= i; ++j) sum += std::exp(p(i, j) - largest);
                const T denominator = largest + std::log(sum);
                for (std::int64_t j = 0; j <= i; ++j) p(i, j) = std::exp(p(i, j) - denominator);
                for (std::int64_t j = i + 1; j < p.columns; ++j) p(i, j) = T{0};
                log_sum[number * p.rows + i] = denominator;
            }
            apply_mask(p, head.first_probability, dropout);
            multiply(alone, head.of_output(out), p, head.v, Start::zero);
        }
    });
}

template <class T>
void attention_backward(ThreadPool& pool, const AttentionShape& shape, T* d_qkv, T* d_out,
                        const T* out, const T* log_sum, T* qkv,
                        const std::optional<Dropout>& dropout) {
    pool.run(shape.rows * shape.heads, [&](std::int64_t first, std::int64_t last) {
        ThreadPool alone{1};
        const auto elements = static_cast<std::size_t>(shape.positions * shape.positions);
        std::vector<T> p_numbers(elements);
        std::vector<T> masked_numbers(elements);
        std::vector<T> d_p_numbers(elements);
        const Matrix<T> p = square(p_numbers, shape.positions);
        const Matrix<T> masked = square(masked_numbers, shape.positions);
        const Matrix<T> d_p = square(d_p_numbers, shape.positions);
        for (std::int64_t number = first; number < last; ++number) {
            const Head<T> head{shape, number, qkv};
            const Matrix<T> d_o = head.of_output(d_out);
            const Matrix<const T> o{out + (d_o.data - d_out), d_o.rows, d_o.columns,
                                    d_o.row_stride};

            // The probabilities again, from the kept denominators.
            multiply(alone, p, head.q, head.k.transposed(), Start::zero);
            for (std::int64_t i = 0; i < p.rows; ++i) {
                const T denominator = log_sum[number * p.rows + i];
                for (std::int64_t j = 0; j <= i; ++j) {
                    p(i, j) = std::exp(p(i, j) * head.scale - denominator);
                }
                for (std::int64_t j = i + 1; j < p.columns; ++j) p(i, j) = T{0};
            }
            masked_numbers = p_numbers;
            apply_mask(masked, head.first_probability, dropout);
            multiply(alone, head.part(d_qkv, 2), masked.transposed(), d_o, Start::zero);

            // Softmax backward needs sum_j p_ij d_p_ij, which is the row product of out and d_out
            // (Dao et al. 2022, FlashAttention, appendix B.4), also under dropout.
            multiply(alone, d_p, d_o, head.v.transposed(), Start::zero);
            apply_mask(d_p, head.first_probability, dropout);
            for (std::int64_t i = 0; i < p.rows; ++i) {
                T product = 0;
                for (std::int64_t c = 0; c < o.columns; ++c) product += d_o(i, c) * o(i, c);
                for (std::int64_t j = 0; j <= i; ++j) {
                    d_p(i, j) = p(i, j) * (d_p(i, j) - product) * head.scale;
                }
                for (std::int64_t j = i + 1; j < p.columns; ++j) d_p(i, j) = T{0};
            }
            multiply(alone, head.part(d_qkv, 0), d_p, head.k, Start::zero);
            multiply(alone, head.part(d_qkv, 1), d_p.transposed(), head.q, Start::zero);
        }
    });
}

#define RHIZOME_INSTANTIATE(T)                                                             \
    template void attention(ThreadPool&, const AttentionShape&, T*, T*, T*,                \
                            const std::optional<Dropout>&);                                \
    template void attention_backward(ThreadPool&, const AttentionShape&, T*, T*, const T*, \
                                     const T*, T*, const std::optional<Dropout>&);
RHIZOME_INSTANTIATE(float)
RHIZOME_INSTANTIATE(double)
#undef RHIZOME_INSTANTIATE

}  // namespace rhizome::device::reference
