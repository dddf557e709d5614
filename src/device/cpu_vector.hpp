// Sixteen numbers at a time, for the loops of the cpu backend: the compilers' vector extension, one
// register of AVX-512 or two of AVX2, with the same bits on both. Sums have sixteen chains, number
// i goes to chain i % 16, and the chains are added in a tree.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <type_traits>

#include "device/cpu_level.hpp"

namespace rhizome::device::cpu::RHIZOME_CPU_LEVEL {

using Floats [[gnu::vector_size(64)]] = float;
using Ints [[gnu::vector_size(64)]] = std::int32_t;
inline constexpr std::int64_t lanes = 16;

inline Floats all(float x) { return x - Floats{}; }

inline Floats load(const float* from) {
    Floats x;
    std::memcpy(&x, from, sizeof x);
    return x;
}
inline void store(float* to, Floats x) { std::memcpy(to, &x, sizeof x); }

/// The first `count` (0..16), and `rest` behind them.
inline Floats load_some(const float* from, std::int64_t count, float rest = 0) {
    Floats x = all(rest);
    std::memcpy(&x, from, static_cast<std::size_t>(count) * sizeof(float));
    return x;
}
inline void store_some(float* to, Floats x, std::int64_t count) {
    std::memcpy(to, &x, static_cast<std::size_t>(count) * sizeof(float));
}

inline Floats larger(Floats x, Floats y) { return x > y ? x : y; }

/// A tree over the lanes.
template <class Combine>
inline float fold(Floats x, const Combine& combine) {
    float part[lanes];
    std::memcpy(part, &x, sizeof part);
    for (std::int64_t half = lanes / 2; half > 0; half /= 2) {
        for (std::int64_t i = 0; i < half; ++i) part[i] = combine(part[i], part[i + half]);
    }
    return part[0];
}
inline float sum_of(Floats x) {
    return fold(x, [](float a, float b) { return a + b; });
}
/// Not a number if one of them is none.
inline float largest_of(Floats x) {
    return fold(x, [](float a, float b) { return a > b || a != a ? a : b; });
}

/// e to the x, within two units of the last place; 0 below -87, where results are no normal numbers
/// any more, and the largest power below infinity above 88. What is no number stays none.
///
/// x = n log 2 + r with |r| <= log(2) / 2: the power of two is put together from its bits, and a
/// polynomial gives e^r (coefficients: Moshier's Cephes library, expf).
inline Floats exp(Floats x) {
    constexpr float rounder = 12582912.0F;  // 1.5 * 2^23: adding it rounds to a whole number
    const Floats low = all(-87.0F);
    const Floats bounded = x > 88.0F ? all(88.0F) : x < low ? low : x;
    const Floats shifted = bounded * std::numbers::log2e_v<float> + rounder;
    const Floats n = shifted - rounder;
    // log 2 in two parts, the first so short that its product with n is exact.
    constexpr float log_2_rest = -2.12194440e-4F;
    constexpr float log_2 = 0.693359375F;  // NOLINT(modernize-use-std-numbers)
    const Floats r = bounded - n * log_2 - n * log_2_rest;
    Floats y = all(1.9875691500e-4F);
    y = y * r + 1.3981999507e-3F;
    y = y * r + 8.3334519073e-3F;
    y = y * r + 4.1665795894e-2F;
    y = y * r + 1.6666665459e-1F;
    y = y * r + 5.0000001201e-1F;
    y = y * (r * r) + r + 1.0F;
    const Ints power = (std::bit_cast<Ints>(shifted) - std::bit_cast<std::int32_t>(rounder) + 127)
                       << 23;
    y *= std::bit_cast<Floats>(power);
    return x < low ? Floats{} : y;
}

/// Calls body(place, count) for pieces of 16 numbers, and for the rest. Whole pieces know their
/// count when they are compiled.
template <class Body>
inline void in_pieces(std::int64_t first, std::int64_t last, const Body& body) {
    std::int64_t i = first;
    for (; i + lanes <= last; i += lanes) {
        body(i, std::integral_constant<std::int64_t, lanes>{});
    }
    if (i < last) body(i, last - i);
}

}  // namespace rhizome::device::cpu::RHIZOME_CPU_LEVEL
