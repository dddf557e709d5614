// The reference backend's operations as plain loops on host memory, for one element type T. Shapes
// and meaning are those of device.hpp. Loops over independent rows are shared out among threads;
// whatever adds up over rows is shared out by columns, so that each sum keeps its order.
#pragma once

#include <cstdint>
#include <span>

#include "device/dropout_mask.hpp"
#include "device/host_tensor.hpp"
#include "device/reference_matrix.hpp"

namespace rhizome::device::reference {

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

template <class T>
void attention(ThreadPool& pool, const AttentionShape& shape, T* out, T* log_sum, T* qkv,
               const std::optional<Dropout>& dropout);
template <class T>
void attention_backward(ThreadPool& pool, const AttentionShape& shape, T* d_qkv, T* d_out,
                        const T* out, const T* log_sum, T* qkv,
                        const std::optional<Dropout>& dropout);

}  // namespace rhizome::device::reference
