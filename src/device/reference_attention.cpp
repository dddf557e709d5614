// Causal self-attention of the reference backend, head by head and a few queries at a time, so that
// no T x T matrix is in memory. Each block of queries sees the keys up to its last one. Sums over
// queries (the gradients of keys and values) continue from block to block in ascending order.
#include <algorithm>
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
void fill(Matrix<T> m, T value) {
    for (std::int64_t i = 0; i < m.rows; ++i) {
        for (std::int64_t j = 0; j < m.columns; ++j) m(i, j) = value;
    }
}

/// Turns products of a query with its keys into probabilities; returns the logarithm of the sum.
template <class T>
T softmax(T* row, std::int64_t keys, T scale) {
    T largest = row[0] * scale;
    for (std::int64_t j = 0; j < keys; ++j) {
        row[j] *= scale;
        largest = std::max(largest, row[j]);
    }
    T sum = 0;
    for (std::int64_t j = 0; j < keys; ++j) sum += std::exp(row[j] - largest);
    const T denominator = largest + std::log(sum);
    for (std::int64_t j = 0; j < keys; ++j) row[j] = std::exp(row[j] - denominator);
    return denominator;
}

/// Queries in a block: whole row tiles of the matrix product.
constexpr std::int64_t block_queries = 8 * tile_rows;

/// Probabilities of the queries [first, first + rows) for the keys [0, columns), or their
/// gradients.
template <class T>
struct Block {
    Block(std::vector<T>& memory, std::int64_t first_query, std::int64_t positions)
        : first{first_query},
          of_queries{std::min(block_queries, positions - first_query)},
          numbers{memory.data(), of_queries, first_query + of_queries, first_query + of_queries} {}

    /// How many keys a query of the block sees.
    [[nodiscard]] std::int64_t keys_of(std::int64_t query) const { return first + query + 1; }
    void clear_unseen() const {
        for (std::int64_t i = 0; i < of_queries; ++i) {
            for (std::int64_t j = keys_of(i); j < numbers.columns; ++j) numbers(i, j) = T{0};
        }
    }
    void apply(const std::optional<Dropout>& dropout, std::int64_t first_element,
               std::int64_t positions) const {
        if (!dropout) return;
        const Mask<T> mask{*dropout};
        for (std::int64_t i = 0; i < of_queries; ++i) {
            T* row = &numbers(i, 0);
            mask.apply(row, row, first_element + (first + i) * positions, keys_of(i));
        }
    }

    std::int64_t first;
    std::int64_t of_queries;
    Matrix<T> numbers;
};

/// Some neighbouring rows of a matrix.
template <class T>
Matrix<T> rows_of(Matrix<T> m, std::int64_t first, std::int64_t count) {
    return {&m(first, 0), count, m.columns, m.row_stride, m.column_stride};
}

template <class T>
std::vector<T> block_memory(std::int64_t positions) {
    return std::vector<T>(static_cast<std::size_t>(block_queries * positions));
}

}  // namespace

template <class T>
void attention(ThreadPool& pool, const AttentionShape& shape, T* out, T* log_sum, T* qkv,
               const std::optional<Dropout>& dropout) {
    pool.run(shape.rows * shape.heads, [&](std::int64_t first, std::int64_t last) {
        ThreadPool alone{1};
        auto memory = block_memory<T>(shape.positions);
        for (std::int64_t number = first; number < last; ++number) {
            const Head<T> head{shape, number, qkv};
            for (std::int64_t query = 0; query < shape.positions; query += block_queries) {
                const Block<T> p{memory, query, shape.positions};
                const std::int64_t keys = p.numbers.columns;
                multiply(alone, p.numbers, rows_of(head.q, query, p.of_queries),
                         rows_of(head.k, 0, keys).transposed(), Start::zero);
                for (std::int64_t i = 0; i < p.of_queries; ++i) {
                    log_sum[number * shape.positions + query + i] =
                        softmax(&p.numbers(i, 0), p.keys_of(i), head.scale);
                }
                p.clear_unseen();
                p.apply(dropout, head.first_probability, shape.positions);
                multiply(alone, rows_of(head.of_output(out), query, p.of_queries), p.numbers,
                         rows_of(head.v, 0, keys), Start::zero);
            }
        }
    });
}

template <class T>
void attention_backward(ThreadPool& pool, const AttentionShape& shape, T* d_qkv, T* d_out,
                        const T* out, const T* log_sum, T* qkv,
                        const std::optional<Dropout>& dropout) {
    pool.run(shape.rows * shape.heads, [&](std::int64_t first, std::int64_t last) {
        ThreadPool alone{1};
        auto p_memory = block_memory<T>(shape.positions);
        auto masked_memory = block_memory<T>(shape.positions);
        auto d_p_memory = block_memory<T>(shape.positions);
        for (std::int64_t number = first; number < last; ++number) {
            const Head<T> head{shape, number, qkv};
            const Matrix<T> d_k = head.part(d_qkv, 1);
            const Matrix<T> d_v = head.part(d_qkv, 2);
            fill(d_k, T{0});
            fill(d_v, T{0});
            for (std::int64_t query = 0; query < shape.positions; query += block_queries) {
                const Block<T> p{p_memory, query, shape.positions};
                const Block<T> masked{masked_memory, query, shape.positions};
                const Block<T> d_p{d_p_memory, query, shape.positions};
                const std::int64_t keys = p.numbers.columns;
                const Matrix<T> q = rows_of(head.q, query, p.of_queries);
                const Matrix<T> k = rows_of(head.k, 0, keys);
                const Matrix<T> v = rows_of(head.v, 0, keys);
                const Matrix<T> d_o = rows_of(head.of_output(d_out), query, p.of_queries);

                // The probabilities again, from the kept denominators.
                multiply(alone, p.numbers, q, k.transposed(), Start::zero);
                for (std::int64_t i = 0; i < p.of_queries; ++i) {
                    const T denominator = log_sum[number * shape.positions + query + i];
                    for (std::int64_t j = 0; j < p.keys_of(i); ++j) {
                        p.numbers(i, j) = std::exp(p.numbers(i, j) * head.scale - denominator);
                    }
                }
                p.clear_unseen();
                std::copy_n(p.numbers.data, p.of_queries * keys, masked.numbers.data);
                masked.apply(dropout, head.first_probability, shape.positions);
                multiply(alone, rows_of(d_v, 0, keys), masked.numbers.transposed(), d_o,
                         Start::old);

                // Softmax backward needs sum_j p_ij d_p_ij, which is the row product of out and
                // d_out (Dao et al. 2022, FlashAttention, appendix B.4), also under dropout.
                multiply(alone, d_p.numbers, d_o, v.transposed(), Start::zero);
                d_p.apply(dropout, head.first_probability, shape.positions);
                for (std::int64_t i = 0; i < p.of_queries; ++i) {
                    const T* const o = out + (&d_o(i, 0) - d_out);
                    T product = 0;
                    for (std::int64_t c = 0; c < d_o.columns; ++c) product += d_o(i, c) * o[c];
                    for (std::int64_t j = 0; j < p.keys_of(i); ++j) {
                        d_p.numbers(i, j) =
                            p.numbers(i, j) * (d_p.numbers(i, j) - product) * head.scale;
                    }
                }
                d_p.clear_unseen();
                multiply(alone, rows_of(head.part(d_qkv, 0), query, p.of_queries), d_p.numbers, k,
                         Start::zero);
                multiply(alone, rows_of(d_k, 0, keys), d_p.numbers.transposed(), q, Start::old);
            }
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
