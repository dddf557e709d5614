#include "cli/timeline_svg.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "cli/times.hpp"
#include "core/text.hpp"
#include "schedule/svg.hpp"

namespace rhizome::cli {
namespace {

using engine::Interval;
using schedule::Instruction;
using schedule::Kind;
using schedule::px;

// In pixels.
constexpr double left = 90;
constexpr double right_margin = 40;
constexpr double top = 84;
constexpr double own_box_min = 1.5;
constexpr double digit_width = 6;
constexpr double letter_width = 5.6;
constexpr std::size_t titles_max = 20'000;

/// The looks of boxes, in the order in which they cover one another, and what the legend says.
struct Wording {
    std::string_view css;
    std::string_view text;
};
constexpr std::array<Wording, 10> wordings{{{"exchange", "exchange"},
                                            {"F", "forward"},
                                            {"R", "recompute"},
                                            {"B", "backward"},
                                            {"I", "input part"},
                                            {"W", "weight part"},
                                            {"update", "update"},
                                            {"wait", "wait for a worker"},
                                            {"waiting", "other wait"},
                                            {"memory", "save"}}};

class Picture {
  public:
    Picture(const Timeline& timeline, double width)
        : timeline_{timeline},
          right_{width - right_margin},
          pitch_{std::clamp(560 / static_cast<double>(rows()), 8.0, 46.0)},
          bar_{pitch_ * 0.6},
          strip_{pitch_ * 0.16},
          bottom_{top + pitch_ * static_cast<double>(rows())} {
        std::optional<Interval> all;
        for (const WorkerTimeline& worker : timeline.workers) {
            for (const TimelineSpan& span : worker.spans) {
                if (!std::holds_alternative<engine::TurnKind>(span.what)) continue;
                if (!all) all = span.when;
                all = Interval{std::min(all->begin, span.when.begin),
                               std::max(all->end, span.when.end)};
            }
        }
        shown_ = all.value_or(Interval{Nanoseconds{0}, Nanoseconds{0}});
        end_s_ = std::chrono::duration<double>(shown_.end - shown_.begin).count();
        unit_ = schedule::unit_for(end_s_);
    }

    /// Once.
    std::string svg() {
        for (std::size_t w = 0; w < timeline_.workers.size(); ++w) add_worker(w);
        const double width = right_ + right_margin;
        const double height = bottom_ + 34;
        std::string svg = R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 )" + px(width) +
                          " " + px(height) + R"(" width="100%" style="max-width: )" + px(width) +
                          "px\">\n" + std::string{schedule::svg_style()} + R"(<rect fill="#fff" )" +
                          schedule::rect(0, 0, width, height) + "/>\n";
        svg += caption() + legend() + schedule::path("bubble", turns_) +
               schedule::time_axis({left, right_, top, bottom_}, end_s_, unit_);
        for (const Wording& each : wordings) svg += schedule::path(each.css, paths_[each.css]);
        return svg + boxes_ + labels_ + commits_ + borders() + row_names() + "</svg>\n";
    }

  private:
    [[nodiscard]] std::size_t rows() const {
        return std::max<std::size_t>(timeline_.workers.size(), 1);
    }
    [[nodiscard]] double x(Nanoseconds time) const {
        const Nanoseconds span = shown_.end - shown_.begin;
        if (span.count() == 0) return left;
        const double share =
            static_cast<double>((time - shown_.begin).count()) / static_cast<double>(span.count());
        return left + (right_ - left) * std::clamp(share, 0.0, 1.0);
    }
    [[nodiscard]] double row(std::size_t worker) const {
        return top + pitch_ * static_cast<double>(worker) + strip_;
    }

    /// Computations cover waits, waits what they are part of: as in the table of shares.
    void add_worker(std::size_t w) {
        Times computing;
        Times waiting;
        for (const TimelineSpan& span : timeline_.workers[w].spans) {
            if (row_of(span) == TimelineRow::compute) computing.push_back(span.when);
            if (row_of(span) == TimelineRow::wait) waiting.push_back(span.when);
        }
        waiting.insert(waiting.end(), computing.begin(), computing.end());
        computing = united(std::move(computing));
        waiting = united(std::move(waiting));
        const auto add = [&](std::string_view css, const Strip& strip, Interval when,
                             const Times& covered) {
            for (const Interval& each : without({when}, covered)) add_plain(css, strip, each);
        };
        const Strip bar{row(w), bar_};
        const Strip below{row(w) + bar_ + 1, strip_};
        for (const TimelineSpan& span : timeline_.workers[w].spans) {
            if (span.when.end < shown_.begin || span.when.begin > shown_.end) continue;
            if (std::holds_alternative<engine::TurnKind>(span.what)) {
                add_turn(w, span);
            } else if (const auto* what = std::get_if<Instruction>(&span.what)) {
                if (row_of(span) == TimelineRow::compute) add_computation(w, *what, span);
                if (row_of(span) == TimelineRow::exchange) add("exchange", bar, span.when, waiting);
                if (what->kind == Kind::commit) add_commit(w, span.when.end);
            } else if (const auto* wait = std::get_if<engine::Wait>(&span.what)) {
                add(wait->peer ? "wait" : "waiting", below, span.when, computing);
            } else if (std::holds_alternative<std::string>(span.what)) {
                add_plain("memory", {row(w) - strip_, strip_}, span.when);
            }
        }
        flush();
    }

    void add_turn(std::size_t w, const TimelineSpan& span) {
        const double begin = x(span.when.begin);
        turns_ += schedule::path_of_rect(begin, row(w), x(span.when.end) - begin, bar_);
        const bool trains = std::get<engine::TurnKind>(span.what) == engine::TurnKind::step;
        const std::string name = trains ? "step " + std::to_string(span.step) : "evaluation";
        const auto border = borders_.try_emplace({span.step, !trains}, begin, name).first;
        border->second.first = std::min(border->second.first, begin);
    }

    void add_commit(std::size_t w, Nanoseconds end) {
        const double size = std::min(4.0, bar_ / 2);
        const double at = std::clamp(x(end), left + size, right_ - size);
        // One per two pixels is all that can be seen.
        if (!commit_columns_.insert({w, static_cast<std::int64_t>(at / 2)}).second) return;
        commits_ += schedule::diamond("commit", at, row(w) + bar_ / 2, size);
    }

    void add_computation(std::size_t w, const Instruction& what, const TimelineSpan& span) {
        const bool updates = what.kind == Kind::update;
        const std::string_view css = updates ? "update" : schedule::word_of(what.kind);
        const double begin = x(span.when.begin);
        const double width = x(span.when.end) - begin;
        if (width < own_box_min || ++titles_ > titles_max) {
            add_plain(css, {row(w), bar_}, span.when);
            return;
        }
        used_.insert(css);
        const double drawn = width - std::min(0.8, width / 4);  // a seam between neighbours
        boxes_ += "<rect class=\"" + std::string{css} + "\" " +
                  schedule::rect(begin, row(w), drawn, bar_) + "><title>" +
                  schedule::to_text(what) + " of step " + std::to_string(span.step) + ", " +
                  time(span.when.begin) + " to " + time(span.when.end) + "</title></rect>\n";
        const std::string label = std::to_string(what.microbatch.value());
        const bool fits =
            bar_ >= 11 && drawn >= digit_width * static_cast<double>(label.size()) + 2;
        if (updates || !fits) return;
        labels_ += schedule::text_at(begin + drawn / 2, row(w) + bar_ / 2 + 4, "middle", label);
    }

    struct Strip {
        double y;
        double height;
    };
    void add_plain(std::string_view css, Strip strip, Interval when) {
        const double begin = x(when.begin);
        const double width = x(when.end) - begin;
        used_.insert(css);
        if (width >= own_box_min) {
            paths_[css] += schedule::path_of_rect(begin, strip.y, width, strip.height);
        } else {
            narrow_[{strip.y, strip.height, static_cast<std::int64_t>(begin)}][css] += width;
        }
    }

    /// What is too narrow for itself shares its column of a pixel with others: as high as its part
    /// of the column is wide.
    void flush() {
        for (const auto& [place, widths] : narrow_) {
            const auto& [y, height, column] = place;
            double at = y;
            for (const auto& [css, width] : widths) {
                const double part = std::min(height * width, y + height - at);
                if (part < 0.05) continue;
                paths_[css] += schedule::path_of_rect(static_cast<double>(column), at, 1, part);
                at += part;
            }
        }
        narrow_.clear();
    }

    [[nodiscard]] std::string time(Nanoseconds time) const {
        return schedule::to_text(std::chrono::duration<double>(time - shown_.begin).count(), unit_);
    }
    [[nodiscard]] std::string caption() const {
        const auto workers = static_cast<std::int64_t>(timeline_.workers.size());
        std::int64_t steps = 0;
        for (const auto& [key, border] : borders_) steps += key.second ? 0 : 1;
        return schedule::text_at(left, 24, "title",
                                 counted(workers, "worker") + ", " + counted(steps, "step") + ", " +
                                     schedule::to_text(end_s_, unit_));
    }

    [[nodiscard]] std::string legend() const {
        constexpr double y = 46;
        double at = left;
        std::string legend;
        const auto entry = [&](const std::string& sign, std::string_view text) {
            legend += sign + schedule::text_at(at + 18, y, "small", std::string{text});
            at += 18 + 6.2 * static_cast<double>(text.size()) + 16;
        };
        const auto box = [&](std::string_view css) {
            const bool strip = css == "wait" || css == "waiting" || css == "memory";
            return "<rect class=\"" + std::string{css} + "\" " +
                   schedule::rect(at, strip ? y - 6 : y - 10, 13, strip ? 5 : 12) + "/>\n";
        };
        for (const Wording& each : wordings) {
            if (used_.contains(each.css)) entry(box(each.css), each.text);
        }
        entry(box("bubble"), "bubble");
        if (!commits_.empty()) {
            entry(schedule::diamond("commit", at + 6, y - 4, 4), "commit");
        }
        return legend;
    }

    /// Where the first worker begins a step or an evaluation, with its name if there is room.
    [[nodiscard]] std::string borders() const {
        std::string lines;
        std::string names;
        double free_from = 0;
        std::vector<std::pair<double, std::string>> sorted;
        for (const auto& [key, border] : borders_) sorted.push_back(border);
        std::sort(sorted.begin(), sorted.end());
        double line_from = 0;
        for (const auto& [at, name] : sorted) {
            if (at < line_from) continue;
            line_from = at + 2;
            lines += "M" + px(at) + " " + px(top - 14) + "V" + px(bottom_ + 4);
            if (at < free_from) continue;
            names += schedule::text_at(at + 3, top - 8, "small", name);
            free_from = at + letter_width * static_cast<double>(name.size()) + 8;
        }
        return schedule::path("step", lines) + names;
    }

    [[nodiscard]] std::string row_names() const {
        const auto stride = static_cast<std::size_t>(std::ceil(11 / pitch_));
        std::string names;
        for (std::size_t w = 0; w < timeline_.workers.size(); w += stride) {
            names +=
                schedule::text_at(left - 8, row(w) + bar_ / 2 + 4, "end",
                                  "worker " + std::to_string(timeline_.workers[w].worker.value()));
        }
        return names;
    }

    const Timeline& timeline_;
    double right_;
    double pitch_;   // from row to row
    double bar_;     // height of a row's boxes
    double strip_;   // of the waits below them, and of saves above
    double bottom_;  // of the rows
    Interval shown_{};
    double end_s_ = 0;
    schedule::TimeUnit unit_{};
    std::size_t titles_ = 0;
    std::string turns_;
    std::map<std::string_view, std::string> paths_;
    std::map<std::tuple<double, double, std::int64_t>, std::map<std::string_view, double>> narrow_;
    /// By step, evaluations behind it: where it begins, and its name.
    std::map<std::pair<std::int32_t, bool>, std::pair<double, std::string>> borders_;
    std::set<std::pair<std::size_t, std::int64_t>> commit_columns_;
    std::set<std::string_view> used_;
    std::string boxes_;
    std::string labels_;
    std::string commits_;
};

}  // namespace

std::string draw_svg(const Timeline& timeline, std::int32_t width) {
    return Picture{timeline, static_cast<double>(width)}.svg();
}

}  // namespace rhizome::cli
