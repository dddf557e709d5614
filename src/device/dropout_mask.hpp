// Which elements a dropout site keeps, on the host.
#pragma once

#include <array>
#include <cstdint>

#include "device/device.hpp"

namespace rhizome::device {

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

}  // namespace rhizome::device
