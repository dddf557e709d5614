#include "schedule/svg.hpp"

#include <algorithm>
#include <cmath>

#include "core/text.hpp"

namespace rhizome::schedule {
namespace {

/// Without zeros behind the point that say nothing.
std::string trimmed(std::string number) {
    if (number.find('.') == std::string::npos) return number;
    number.resize(number.find_last_not_of('0') + 1);
    if (number.back() == '.') number.pop_back();
    return number == "-0" ? "0" : number;
}

}  // namespace

std::string_view svg_style() {
    return R"(<style>
text { font: 11px sans-serif; fill: #222; }
.title { font-size: 14px; font-weight: bold; }
.small { fill: #555; }
.middle { text-anchor: middle; }
.end { text-anchor: end; }
.bubble { fill: #eeeeea; }
.F { fill: #8dbfe9; }
.B { fill: #f2a65a; }
.I { fill: #f6db74; }
.W { fill: #63b893; }
.R { fill: #d8a0c6; }
.grid { stroke: #d4d4ce; stroke-width: 0.6; fill: none; }
.activation, .gradient, .ending { stroke-width: 0.9; fill: none; }
.activation { stroke: #1f5fa8; }
.gradient { stroke: #a8480d; }
.ending { stroke: #666; stroke-dasharray: 3 2; stroke-width: 0.7; }
.waiting { fill: #666; }
.wait { fill: #c2373f; }
.exchange { fill: #b9b4c9; }
.step { stroke: #222; stroke-width: 0.8; stroke-dasharray: 2 2; fill: none; }
.commit { fill: #222; }
.update { fill: #7a3b9a; }
.memory { fill: #cfd8e3; stroke: #5b6b80; stroke-width: 0.8; }
.plain { stroke: none; }
</style>
)";
}

std::string px(double value) { return trimmed(to_fixed(value, 2)); }

std::string rect(double x, double y, double width, double height) {
    return "x=\"" + px(x) + "\" y=\"" + px(y) + "\" width=\"" + px(width) + "\" height=\"" +
           px(height) + "\"";
}

std::string path_of_rect(double x, double y, double width, double height) {
    return "M" + px(x) + " " + px(y) + "h" + px(width) + "v" + px(height) + "h" + px(-width) + "z";
}

std::string path(std::string_view css, const std::string& data) {
    if (data.empty()) return "";
    return "<path class=\"" + std::string{css} + "\" d=\"" + data + "\"/>\n";
}

std::string text_at(double x, double y, std::string_view css, const std::string& text) {
    return "<text class=\"" + std::string{css} + "\" x=\"" + px(x) + "\" y=\"" + px(y) + "\">" +
           text + "</text>\n";
}

TimeUnit unit_for(double span_s) {
    if (span_s >= 1) return {1, "s"};
    if (span_s >= 1e-3) return {1e-3, "ms"};
    return {1e-6, "µs"};
}

std::string to_text(double seconds, TimeUnit unit) {
    const double value = seconds / unit.seconds;
    const int digits = value < 1 ? 3 : value < 10 ? 2 : value < 100 ? 1 : 0;
    return trimmed(to_fixed(value, digits)) + " " + std::string{unit.name};
}

std::string time_axis(Frame frame, double end_s, TimeUnit unit) {
    if (end_s <= 0) return "";
    // The step is 1, 2 or 5 times a power of ten, so that there are five to fifteen.
    const double span = end_s / unit.seconds;
    const double power = std::floor(std::log10(span / 6));
    const double share = span / 6 / std::pow(10, power);
    const double step = (share < 2 ? 1 : share < 5 ? 2 : 5) * std::pow(10, power);
    std::string labels;
    std::string lines;
    for (int tick = 0; tick * step <= span * (1 + 1e-9); ++tick) {
        const double x =
            frame.left + (frame.right - frame.left) * (tick * step * unit.seconds) / end_s;
        lines += "M" + px(x) + " " + px(frame.top - 4) + "V" + px(frame.bottom + 4);
        labels += text_at(x, frame.bottom + 17, "small middle",
                          to_fixed(tick * step, static_cast<int>(std::max(0.0, -power))));
    }
    return path("grid", lines) + labels +
           text_at(frame.left - 8, frame.bottom + 17, "small end",
                   "time in " + std::string{unit.name});
}

std::string diamond(std::string_view css, double x, double y, double size) {
    const std::string s = px(size);
    return path(css, "M" + px(x - size) + " " + px(y) + "l" + s + " -" + s + "l" + s + " " + s +
                         "l-" + s + " " + s + "z");
}

std::string triangle(std::string_view css, double x, double y, double size) {
    return path(css, "M" + px(x - size) + " " + px(y + size) + "h" + px(2 * size) + "l-" +
                         px(size) + " " + px(-2 * size) + "z");
}

}  // namespace rhizome::schedule
