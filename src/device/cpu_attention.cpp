// Causal self-attention of the cpu backend, head by head and a block of queries at a time, so that
// the T x T matrix is never in memory: a block's probabilities fit into the second level cache. A
// block sees the keys up to its last query. The gradients of keys and values add up from block to
// block in ascending order.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "device/cpu_level.hpp"
#include "device/cpu_vector.hpp"
#include "device/dropout_mask.hpp"

namespace rhizome::device::cpu::RHIZOME_CPU_LEVEL {
namespace {

constexpr std::int64_t block_queries = 64;

/// Where one head of one row has its numbers.
struct Head {
    Head(const AttentionShape& shape, std::int64_t number)
        : width{shape.channels / shape.heads},
          in_qkv{number / shape.heads * shape.positions * 3 * shape.channels +
                 number % shape.heads * width},
          in_output{number / shape.heads * shape.positions * shape.channels +
                    number % shape.heads * width},
          qkv_stride{3 * shape.channels},
          output_stride{shape.channels},
          channels{shape.channels},
          scale{static_cast<float>(1.0 / std::sqrt(static_cast<double>(width)))} {}

    /// Queries, keys or values (0, 1, 2) from a position on.
    template <class T>
    [[nodiscard]] T* part(T* qkv, std::int64_t which, std::int64_t position = 0) const {
        return qkv + in_qkv + which * channels + position * qkv_stride;
    }
    template <class T>
    [[nodiscard]] T* output(T* data, std::int64_t position) const {
        return data + in_output + position * output_stride;
    }

    std::int64_t width;
    std::int64_t in_qkv;
    std::int64_t in_output;
    std::int64_t qkv_stride;
    std::int64_t output_stride;
    std::int64_t channels;
    float scale;
};

/// Numbers of some queries for the keys up to the last of them.
struct Block {
    Block(std::int64_t first_query, std::int64_t positions)
        : first{first_query},
          queries{std::min(block_queries, positions - first_query)},
          keys{first_query + queries} {}

    [[nodiscard]] std::int64_t keys_of(std::int64_t query) const { return first + query + 1; }
    [[nodiscard]] float* row(float* numbers, std::int64_t query) const {
        return numbers + query * keys;
    }
    void clear_unseen(float* numbers, std::int64_t query) const {
        std::fill(row(numbers, query) + keys_of(query), row(numbers, query) + keys, 0.0F);
    }

    std::int64_t first;
    std::int64_t queries;
    std::int64_t keys;
};

std::vector<float> memory_for(const AttentionShape& shape) {
    return std::vector<float>(static_cast<std::size_t>(block_queries * shape.positions));
}

/// Turns scores into probabilities; returns the logarithm of their sum.
float softmax(float* row, std::int64_t keys) {
    const auto [largest, sum] = raise(row, keys);
    const float factor = 1.0F / sum;
    in_pieces(0, keys, [&](std::int64_t j, auto n) {
        store_some(row + j, load_some(row + j, n) * factor, n);
    });
    return largest + std::log(sum);
}

/// Calls body(block, first element of the block's first row in (B, H, T, T)).
template <class Body>
void for_blocks(const AttentionShape& shape, std::int64_t number, const Body& body) {
    for (std::int64_t query = 0; query < shape.positions; query += block_queries) {
        body(Block{query, shape.positions}, (number * shape.positions + query) * shape.positions);
    }
}

void drop(const Block& block, float* numbers, const Mask<float>& mask, std::int64_t first_element,
          std::int64_t positions) {
    for (std::int64_t i = 0; i < block.queries; ++i) {
        float* const row = block.row(numbers, i);
        mask.apply(row, row, first_element + i * positions, block.keys_of(i));
    }
}

/// One head's backward pass.
class Backward {
  public:
    Backward(const AttentionShape& shape, const std::optional<Dropout>& dropout)
        : shape_{shape}, p_(memory_for(shape)), d_p_(memory_for(shape)) {
        if (dropout) {
            mask_.emplace(*dropout);
            masked_ = memory_for(shape);
        }
    }

    struct Data {
        float* d_qkv;
        const float* d_out;
        const float* out;
        const float* log_sum;
        const float* qkv;
    };
    void run(std::int64_t number, const Data& data) {
        const Head head{shape_, number};
        for (std::int64_t t = 0; t < shape_.positions; ++t) {
            std::fill_n(head.part(data.d_qkv, 1, t), head.width, 0.0F);
            std::fill_n(head.part(data.d_qkv, 2, t), head.width, 0.0F);
        }
        for_blocks(shape_, number, [&](const Block& block, std::int64_t first_element) {
            find_probabilities(head, block, data, number);
            const float* masked = p_.data();
            if (mask_) {
                std::copy_n(p_.data(), block.queries * block.keys, masked_.data());
                drop(block, masked_.data(), *mask_, first_element, shape_.positions);
                masked = masked_.data();
            }
            const Factor d_out{head.output(data.d_out, block.first), head.output_stride};
            multiply({.rows = block.keys, .columns = head.width, .inner = block.queries, .keep = 1},
                     head.part(data.d_qkv, 2), head.qkv_stride,
                     {masked, block.keys, Order::transposed}, d_out);
            multiply({.rows = block.queries, .columns = block.keys, .inner = head.width},
                     d_p_.data(), block.keys, d_out,
                     {head.part(data.qkv, 2), head.qkv_stride, Order::transposed});
            if (mask_) drop(block, d_p_.data(), *mask_, first_element, shape_.positions);
            find_d_scores(head, block, data);
            multiply({.rows = block.queries, .columns = head.width, .inner = block.keys},
                     head.part(data.d_qkv, 0, block.first), head.qkv_stride,
                     {d_p_.data(), block.keys}, {head.part(data.qkv, 1), head.qkv_stride});
            multiply({.rows = block.keys, .columns = head.width, .inner = block.queries, .keep = 1},
                     head.part(data.d_qkv, 1), head.qkv_stride,
                     {d_p_.data(), block.keys, Order::transposed},
                     {head.part(data.qkv, 0, block.first), head.qkv_stride});
        });
    }

  private:
    /// Again, from the kept denominators.
    void find_probabilities(const Head& head, const Block& block, const Data& data,
                            std::int64_t number) {
        multiply({.rows = block.queries,
                  .columns = block.keys,
                  .inner = head.width,
                  .scale = head.scale},
                 p_.data(), block.keys, {head.part(data.qkv, 0, block.first), head.qkv_stride},
                 {head.part(data.qkv, 1), head.qkv_stride, Order::transposed});
        for (std::int64_t i = 0; i < block.queries; ++i) {
            const float log_sum = data.log_sum[number * shape_.positions + block.first + i];
            float* const row = block.row(p_.data(), i);
            in_pieces(0, block.keys_of(i), [&](std::int64_t j, auto n) {
                store_some(row + j, exp(load_some(row + j, n) - log_sum), n);
            });
            block.clear_unseen(p_.data(), i);
        }
    }

    /// Softmax backward needs sum_j p_ij d_p_ij, which is the row product of out and d_out (Dao et
    /// al. 2022, FlashAttention, appendix B.4), also under dropout.
    void find_d_scores(const Head& head, const Block& block, const Data& data) {
        for (std::int64_t i = 0; i < block.queries; ++i) {
            const float* const d_o = head.output(data.d_out, block.first + i);
            const float* const o = head.output(data.out, block.first + i);
            Floats products{};
            in_pieces(0, head.width, [&](std::int64_t c, auto n) {
                products += load_some(d_o + c, n) * load_some(o + c, n);
            });
            const float product = sum_of(products);
            const float* const p = block.row(p_.data(), i);
            float* const d_p = block.row(d_p_.data(), i);
            in_pieces(0, block.keys_of(i), [&](std::int64_t j, auto n) {
                const Floats d_score = load_some(p + j, n) * (load_some(d_p + j, n) - product);
                store_some(d_p + j, d_score * head.scale, n);
            });
            block.clear_unseen(d_p_.data(), i);
        }
    }

    const AttentionShape& shape_;
    std::vector<float> p_;
    std::vector<float> d_p_;
    std::optional<Mask<float>> mask_;
    std::vector<float> masked_;
};

}  // namespace

void attention(ThreadPool& pool, const AttentionShape& shape, float* out, float* log_sum,
               const float* qkv, const std::optional<Dropout>& dropout) {
    pool.run(shape.rows * shape.heads, [&](std::int64_t first, std::int64_t last) {
        std::vector<float> p = memory_for(shape);
        std::optional<Mask<float>> mask;
        if (dropout) mask.emplace(*dropout);
        for (std::int64_t number = first; number < last; ++number) {
            const Head head{shape, number};
            for_blocks(shape, number, [&](const Block& block, std::int64_t first_element) {
                multiply({.rows = block.queries,
                          .columns = block.keys,
                          .inner = head.width,
                          .scale = head.scale},
                         p.data(), block.keys, {head.part(qkv, 0, block.first), head.qkv_stride},
                         {head.part(qkv, 1), head.qkv_stride, Order::transposed});
                for (std::int64_t i = 0; i < block.queries; ++i) {
                    log_sum[number * shape.positions + block.first + i] =
                        softmax(block.row(p.data(), i), block.keys_of(i));
                    block.clear_unseen(p.data(), i);
                }
                if (mask) drop(block, p.data(), *mask, first_element, shape.positions);
                multiply({.rows = block.queries, .columns = head.width, .inner = block.keys},
                         head.output(out, block.first), head.output_stride, {p.data(), block.keys},
                         {head.part(qkv, 2), head.qkv_stride});
            });
        }
    });
}

void attention_backward(ThreadPool& pool, const AttentionShape& shape, float* d_qkv,
                        const float* d_out, const float* out, const float* log_sum,
                        const float* qkv, const std::optional<Dropout>& dropout) {
    pool.run(shape.rows * shape.heads, [&](std::int64_t first, std::int64_t last) {
        Backward backward{shape, dropout};
        for (std::int64_t number = first; number < last; ++number) {
            backward.run(number, {d_qkv, d_out, out, log_sum, qkv});
        }
    });
}

}  // namespace rhizome::device::cpu::RHIZOME_CPU_LEVEL
