// The few elements of SVG that pictures of schedules are made of. Their look is in classes (css).
#pragma once

#include <string>
#include <string_view>

namespace rhizome::schedule {

/// A style element: what the classes look like, kinds of computation by their words (F, B, ...).
/// The colours differ in lightness too, so that colour-blind readers and grey prints can tell them
/// apart.
[[nodiscard]] std::string_view svg_style();

/// With two digits behind the point at most, and none that say nothing.
[[nodiscard]] std::string px(double value);

/// The attributes of a rectangle.
[[nodiscard]] std::string rect(double x, double y, double width, double height);
/// The same as a piece of a path, which takes less space.
[[nodiscard]] std::string path_of_rect(double x, double y, double width, double height);

[[nodiscard]] std::string path(std::string_view css, const std::string& data);
[[nodiscard]] std::string text_at(double x, double y, std::string_view css,
                                  const std::string& text);

/// Marks around a point that reach `size` from it.
[[nodiscard]] std::string diamond(std::string_view css, double x, double y, double size);
[[nodiscard]] std::string triangle(std::string_view css, double x, double y, double size);

/// Seconds, or what is shorter.
struct TimeUnit {
    double seconds;
    std::string_view name;
};
[[nodiscard]] TimeUnit unit_for(double span_s);
[[nodiscard]] std::string to_text(double seconds, TimeUnit unit);

struct Frame {
    double left;
    double right;
    double top;
    double bottom;
};
/// Lines through the frame and numbers below it, from 0 at its left to that time at its right.
[[nodiscard]] std::string time_axis(Frame frame, double end_s, TimeUnit unit);

}  // namespace rhizome::schedule
