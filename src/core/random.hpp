// Where a random number is used decides what it is: (seed, layer, site in the layer, step,
// microbatch, element), never a rank, a thread or the order of calls. docs/MATHEMATICS.md has the
// layout of the counter.
#pragma once

#include <array>
#include <cstdint>

#include "core/ids.hpp"
#include "core/philox.hpp"

namespace rhizome {

/// One site: a stream of random words, one per element.
class RandomSite {
  public:
    /// Dropout and the like: fresh numbers for every microbatch of every step.
    [[nodiscard]] static constexpr RandomSite in_step(std::uint64_t seed, LayerId layer, int site,
                                                      Step step, Microbatch microbatch) {
        ENSURE(site >= 0 && site < first_initial_site);
        return {seed, layer_word(layer) | static_cast<std::uint32_t>(site),
                static_cast<std::uint32_t>(step.value()),
                static_cast<std::uint32_t>(microbatch.value())};
    }
    /// Initial values of a layer's tensor.
    [[nodiscard]] static constexpr RandomSite initial(std::uint64_t seed, LayerId layer,
                                                      int tensor) {
        ENSURE(tensor >= 0 && tensor < first_initial_site);
        return {seed, layer_word(layer) | static_cast<std::uint32_t>(first_initial_site + tensor),
                0, 0};
    }
    /// Round keys of the sampler's permutation of one pass over the data.
    [[nodiscard]] static constexpr RandomSite sampler(std::uint64_t seed, std::uint32_t pass,
                                                      std::uint32_t round) {
        return {seed, no_layer << 16, pass, round};
    }
    /// Choices of tokens when text is generated: block n is of the token that has n before it.
    [[nodiscard]] static constexpr RandomSite generation(std::uint64_t seed) {
        return {seed, no_layer << 16 | 1U, 0, 0};
    }

    /// Words of elements 4 * block to 4 * block + 3.
    [[nodiscard]] constexpr std::array<std::uint32_t, 4> words(std::uint32_t block) const {
        return philox4x32_10({block, word_1_, word_2_, word_3_}, key_);
    }

  private:
    static constexpr int first_initial_site = 0x8000;
    static constexpr std::uint32_t no_layer = 0xFFFF;  // of what belongs to none

    static constexpr std::uint32_t layer_word(LayerId layer) {
        const auto number = static_cast<std::uint32_t>(layer.value());
        ENSURE(number < no_layer);
        return number << 16;
    }
    constexpr RandomSite(std::uint64_t seed, std::uint32_t place, std::uint32_t step,
                         std::uint32_t microbatch)
        : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
          word_1_{microbatch},
          word_2_{step},
          word_3_{place} {}

    PhiloxKey key_;
    std::uint32_t word_1_;
    std::uint32_t word_2_;
    std::uint32_t word_3_;
};

/// In [0, 1), exact in single precision, so that every precision draws the same dropout mask.
[[nodiscard]] constexpr float uniform(std::uint32_t word) {
    return static_cast<float>(word >> 8) * 0x1p-24F;
}

/// In [0, 1), with all the bits of a double.
[[nodiscard]] constexpr double uniform(std::uint32_t high, std::uint32_t low) {
    return (static_cast<double>(high >> 5) * 0x1p26 + static_cast<double>(low >> 6)) * 0x1p-53;
}

/// Standard normal deviates of the four elements of a block (Box, Muller 1958).
[[nodiscard]] std::array<double, 4> normals(const RandomSite& site, std::uint32_t block);

}  // namespace rhizome
