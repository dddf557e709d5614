// What the files of one level of instructions share. They are compiled once per level, each time
// with another RHIZOME_CPU_LEVEL; everything in them is in the namespace of that name or local, so
// that no code for wide registers can take the place of the same code for narrow ones.
#pragma once

#include "device/cpu_kernels.hpp"

#ifndef RHIZOME_CPU_LEVEL
#define RHIZOME_CPU_LEVEL common
#endif

namespace rhizome::device::cpu::RHIZOME_CPU_LEVEL {

extern const Kernels table;

struct Raised {
    float largest;  // of the numbers
    float sum;      // of what became of them
};
/// Each of these numbers (at least one) becomes e to what it lies above the largest of them.
Raised raise(float* row, std::int64_t count);

// As in Kernels.
void attention(ThreadPool& pool, const AttentionShape& shape, float* out, float* log_sum,
               const float* qkv, const std::optional<Dropout>& dropout);
void attention_backward(ThreadPool& pool, const AttentionShape& shape, float* d_qkv,
                        const float* d_out, const float* out, const float* log_sum,
                        const float* qkv, const std::optional<Dropout>& dropout);

}  // namespace rhizome::device::cpu::RHIZOME_CPU_LEVEL
