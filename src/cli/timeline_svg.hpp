// A timeline as a picture, in the colours of schedules' drawings: a row per worker, a column of
// pixels per piece of time.
#pragma once

#include <string>

#include "cli/timeline_data.hpp"

namespace rhizome::cli {

inline constexpr std::int32_t picture_width_min = 600;
inline constexpr std::int32_t picture_width_max = 20'000;

/// Its size is bounded by the number of pixels, however many spans there are.
[[nodiscard]] std::string draw_svg(const Timeline& timeline, std::int32_t width);

}  // namespace rhizome::cli
