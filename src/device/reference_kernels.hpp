// The reference backend's operations as plain loops on host memory, for one element type T. Shapes
// and meaning are those of device.hpp. Loops over independent rows are shared out among threads;
// whatever adds up over rows is shared out by columns, so that each sum keeps its order.
#pragma once

#include <cstdint>
#include <span>

#include "device/device.hpp"
#include "device/reference_matrix.hpp"

namespace rhizome::device::reference {

/// Draws the mask of a dropout site: 1 / (1 - p) or 0 for any element.
template <class T>
class Mask {
  public:
    explicit Mask(const Dropout& dropout)
        : site_{dropout.site},
          probability_{dropout.probability},
          scale_{static_cast<T>(1.0 / (1.0 - dropout.probability))} {}

    /// Multiplies x, whose first element has this number in the site.
    void apply(T* out, const T* x, std::int64_t first_element, std::int64_t count) const {
        std::array<std::uint32_t, 4> words{};
        std::int64_t block_of_words = -1;
        for (std::int64_t i = 0; i < count; ++i) {
            const std::int64_t element = first_element + i;
            if (element / 4 != block_of_words) {
                block_of_words = element / 4;
                words = site_.words(static_cast<std::uint32_t>(block_of_words));
            }
            const double drawn = uniform(words[static_cast<std::size_t>(element % 4)]);
            out[i] = drawn >= probability_ ? x[i] * scale_ : T{0};
        }
    }

  private:
    RandomSite site_;
    double probability_;
    T scale_;
};

template <class T>
void dropout(ThreadPool& pool, T* out, const T* x, std::int64_t elements, const Dropout& dropout);
template <class T>
void gelu(ThreadPool& pool, T* out, const T* x, std::int64_t elements);
template <class T>
void gelu_backward(ThreadPool& pool, T* d_x, const T* d_out, const T* x, std::int64_t elements);

template <class T>
void norm(ThreadPool& pool, Matrix<T> out, T* mean, T* inverse_deviation, Matrix<T> x,
          const T* weight, const T* bias);
template <class T>
void norm_backward_input(ThreadPool& pool, Matrix<T> d_x, Matrix<T> d_out, Matrix<T> x,
                         const T* mean, const T* inverse_deviation, const T* weight);
template <class T>
void norm_backward_weight(ThreadPool& pool, T* d_weight, T* d_bias, Matrix<T> d_out, Matrix<T> x,
                          const T* mean, const T* inverse_deviation);

/// sums (columns) += the rows of x, one after the other.
template <class T>
void add_rows(ThreadPool& pool, T* sums, Matrix<T> x);

template <class T>
double cross_entropy(ThreadPool& pool, Matrix<T> logits, const std::int32_t* targets,
                     double gradient_scale);

struct AttentionShape {
    std::int64_t rows;
    std::int64_t positions;
    std::int64_t channels;
    std::int64_t heads;
};
template <class T>
void attention(ThreadPool& pool, const AttentionShape& shape, T* out, T* log_sum, T* qkv,
               const std::optional<Dropout>& dropout);
template <class T>
void attention_backward(ThreadPool& pool, const AttentionShape& shape, T* d_qkv, T* d_out,
                        const T* out, const T* log_sum, T* qkv,
                        const std::optional<Dropout>& dropout);

}  // namespace rhizome::device::reference
