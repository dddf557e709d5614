#include "core/random.hpp"

#include <cmath>
#include <numbers>

namespace rhizome {

std::array<double, 4> normals(const RandomSite& site, std::uint32_t block) {
    const auto words = site.words(block);
    std::array<double, 4> result{};
    for (std::size_t pair = 0; pair < 4; pair += 2) {
        // Half a unit up keeps the logarithm away from zero.
        const double radius = std::sqrt(-2.0 * std::log((words[pair] + 0.5) * 0x1p-32));
        const double angle = 2.0 * std::numbers::pi * ((words[pair + 1] + 0.5) * 0x1p-32);
        result[pair] = radius * std::cos(angle);
        result[pair + 1] = radius * std::sin(angle);
    }
    return result;
}

}  // namespace rhizome
