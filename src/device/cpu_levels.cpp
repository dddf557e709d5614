#include <array>

#include "device/cpu_level.hpp"

namespace rhizome::device::cpu {

#ifdef RHIZOME_CPU_HAS_V4
namespace v4 {
extern const Kernels table;  // for x86-64-v4: AVX-512
}

std::span<const Kernels* const> kernels_here() {
    static constexpr std::array all{&common::table, &v4::table};
    static const bool has_v4 =
        __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl");
    return std::span{all}.first(has_v4 ? 2 : 1);
}
#else
std::span<const Kernels* const> kernels_here() {
    static constexpr std::array all{&common::table};
    return all;
}
#endif

}  // namespace rhizome::device::cpu
