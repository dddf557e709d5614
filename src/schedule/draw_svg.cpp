// The picture is made of strings in the order in which they cover one another. Its size is bounded
// by the number of pixels, not of instructions: boxes that are too narrow to be told apart share
// one, which shows each kind by its part of the height, and too many transfers are left out.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "core/error.hpp"
#include "core/text.hpp"
#include "schedule/draw.hpp"
#include "schedule/svg.hpp"

namespace rhizome::schedule {
namespace {

// In pixels of a picture that is 1200 wide, where it is shown in its own size.
constexpr double picture_width = 1200;
constexpr double left = 90;
constexpr double right = 1160;
constexpr double top = 68;
constexpr double own_box_min = 1.5;
constexpr double shared_box_max = 8;
constexpr double shown_gap_min = 1.5;
constexpr double digit_width = 6;
constexpr std::size_t transfers_max = 4000;
constexpr std::size_t titles_max = 3000;
constexpr std::size_t memory_rows_max = 256;

struct Wording {
    Kind kind;
    std::string_view text;
};
constexpr std::array<Wording, 5> wordings{{{Kind::forward, "forward"},
                                           {Kind::backward, "backward"},
                                           {Kind::backward_input, "input part"},
                                           {Kind::backward_weight, "weight part"},
                                           {Kind::recompute, "recompute"}}};

std::string_view css_of_transfer(Kind kind) {
    if (kind == Kind::send_activation) return "activation";
    if (kind == Kind::send_gradient) return "gradient";
    return "ending";
}

/// How a box looks: its kind, and which of its worker's stages it belongs to.
struct Look {
    Kind kind;
    std::size_t turn;
    friend auto operator<=>(const Look&, const Look&) = default;
};

/// Neighbouring boxes that are too narrow for themselves.
struct SharedBox {
    double begin = 0;
    double end = 0;
    std::map<Look, double> widths;
};

class Picture {
  public:
    Picture(const Schedule& schedule, const DryRun& run)
        : schedule_{schedule}, run_{run}, end_s_{run.makespan_s} {
        const std::size_t workers = schedule.shape.workers.size();
        ENSURE(schedule.programs.size() == workers && run.workers.size() == workers);
        for (std::size_t w = 0; w < workers; ++w) {
            ENSURE(run.workers[w].spans.size() == schedule.programs[w].size());
            for (const Span& span : run.workers[w].spans) end_s_ = std::max(end_s_, span.end_s);
            std::set<StageId> stages;
            for (const Instruction& each : schedule.programs[w]) {
                take_note_of(each);
                if (is_compute(each.kind)) stages.insert(each.stage);
            }
            turns_ = std::max(turns_, stages.size());
            stages_.emplace_back(stages.begin(), stages.end());
        }
        const auto rows = static_cast<double>(std::max<std::size_t>(workers, 1));
        pitch_ = std::clamp(560 / rows, 6.0, 34.0);
        bar_ = pitch_ * (pitch_ < 12 ? 0.85 : 0.72);
        bottom_ = top + pitch_ * rows;
        unit_ = unit_for(end_s_);
        has_titles_ = computations_ <= titles_max;
    }

    /// Once.
    std::string svg() {
        std::string bars;
        for (std::size_t w = 0; w < run_.workers.size(); ++w) {
            bars += "<rect class=\"bubble\" " + rect(left, row(w), right - left, bar_) + "/>\n";
            add_row(w);
        }
        add_transfers();
        const std::string lines = axis();
        const std::string chart = memory();
        const std::string size = px(picture_width) + " " + px(height_);
        std::string svg = R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 )" + size +
                          R"(" width="100%" style="max-width: )" + px(picture_width) + "px\">\n" +
                          std::string{svg_style()} + R"(<rect fill="#fff" )" +
                          rect(0, 0, picture_width, height_) + "/>\n";
        svg += caption() + legend() + bars + lines;
        for (const auto& [css, data] : lines_) svg += path(css, data);
        for (const auto& [look, data] : paths_) {
            svg += "<path class=\"" + std::string{word_of(look.kind)} + "\"" + opacity(look.turn) +
                   " d=\"" + data + "\"/>\n";
        }
        svg += boxes_ + labels_;
        return svg + markers_ + row_names() + chart + "</svg>\n";
    }

  private:
    void take_note_of(const Instruction& each) {
        kinds_.insert(each.kind);
        if (is_send(each.kind)) ++transfers_;
        if (!is_compute(each.kind)) return;
        ++computations_;
        microbatches_.insert(each.microbatch);
    }

    [[nodiscard]] double x(double time_s) const {
        return left + (end_s_ > 0 ? (right - left) * time_s / end_s_ : 0);
    }
    [[nodiscard]] double row(std::size_t worker) const {
        return top + pitch_ * static_cast<double>(worker);
    }
    [[nodiscard]] std::string name_of(std::size_t worker) const {
        return "worker " + std::to_string(schedule_.shape.workers[worker].value());
    }

    /// A worker's later stages are paler.
    [[nodiscard]] std::string opacity(std::size_t turn) const {
        if (turn == 0 || turns_ < 2) return "";
        const double share = static_cast<double>(turn) / static_cast<double>(turns_ - 1);
        return " fill-opacity=\"" + px(1 - 0.55 * share) + "\"";
    }

    void add_row(std::size_t w) {
        const std::vector<Instruction>& program = schedule_.programs[w];
        const std::vector<StageId>& stages = stages_[w];
        SharedBox shared;
        for (std::size_t place = 0; place < program.size(); ++place) {
            const Instruction& each = program[place];
            const Span span = run_.workers[w].spans[place];
            if (each.kind == Kind::commit || each.kind == Kind::update) add_marker(w, each, span);
            if (!is_compute(each.kind)) continue;
            const auto stage = std::lower_bound(stages.begin(), stages.end(), each.stage);
            const Look look{each.kind, static_cast<std::size_t>(stage - stages.begin())};
            const double begin = x(span.start_s);
            const double width = x(span.end_s) - begin;
            if (width >= own_box_min) {
                flush(w, shared);
                add_box(w, each, look, span);
                continue;
            }
            if (begin - shared.end >= shown_gap_min ||
                begin + width - shared.begin > shared_box_max) {
                flush(w, shared);
            }
            if (shared.widths.empty()) shared.begin = begin;
            shared.end = begin + width;
            shared.widths[look] += width;
        }
        flush(w, shared);
    }

    void add_box(std::size_t w, const Instruction& each, Look look, Span span) {
        const double begin = x(span.start_s);
        const double width = x(span.end_s) - begin;
        const double drawn = width - std::min(0.8, width / 4);  // a seam between neighbours
        if (!has_titles_) {
            paths_[look] += path_of_rect(begin, row(w), drawn, bar_);
        } else {
            boxes_ += "<rect class=\"" + std::string{word_of(each.kind)} + "\"" +
                      opacity(look.turn) + " " + rect(begin, row(w), drawn, bar_) + "><title>" +
                      schedule::to_text(each) + ", " + to_text(span.start_s, unit_) + " to " +
                      to_text(span.end_s, unit_) + "</title></rect>\n";
        }
        const std::string label = std::to_string(each.microbatch.value());
        if (bar_ < 11 || drawn < digit_width * static_cast<double>(label.size()) + 2) return;
        labels_ += text_at(begin + drawn / 2, row(w) + bar_ / 2 + 4, "middle", label);
    }

    void flush(std::size_t w, SharedBox& shared) {
        const double width = shared.end - shared.begin;
        double y = row(w);
        for (const auto& [look, part] : shared.widths) {
            if (width <= 0) break;
            const double height = bar_ * std::min(part / width, 1.0);
            paths_[look] += path_of_rect(shared.begin, y, width, height);
            y += height;
        }
        shared = {};
    }

    void add_marker(std::size_t w, const Instruction& each, Span span) {
        const double size = std::min(5.0, bar_ / 2);
        const double middle = row(w) + bar_ / 2;
        const double end = x(span.end_s);
        const bool commits = each.kind == Kind::commit;
        const double bar = commits ? 2 : bar_ / 2;
        markers_ += "<rect class=\"" + std::string{commits ? "waiting" : "update"} + "\" " +
                    rect(x(span.start_s), middle - bar / 2, end - x(span.start_s), bar) + "/>\n";
        markers_ += commits ? diamond("commit", end - size, middle, size)
                            : triangle("update", end + size, middle, size);
    }

    /// From where it is sent to where it has arrived; the dry run keeps both with the send.
    void add_transfers() {
        if (transfers_ > transfers_max) return;
        for (std::size_t w = 0; w < run_.workers.size(); ++w) {
            for (std::size_t place = 0; place < schedule_.programs[w].size(); ++place) {
                const Instruction& each = schedule_.programs[w][place];
                if (!is_send(each.kind) || !each.peer) continue;
                const auto& workers = schedule_.shape.workers;
                const auto peer = std::find(workers.begin(), workers.end(), *each.peer);
                if (peer == workers.end()) continue;
                const auto to = static_cast<std::size_t>(peer - workers.begin());
                const Span span = run_.workers[w].spans[place];
                const double start_y = row(w) + (to > w ? bar_ : 0);
                const double end_y = row(to) + (to > w ? 0 : bar_);
                lines_[css_of_transfer(each.kind)] += "M" + px(x(span.start_s)) + " " +
                                                      px(start_y) + "L" + px(x(span.end_s)) + " " +
                                                      px(end_y);
            }
        }
    }

    [[nodiscard]] std::string caption() const {
        const std::size_t workers = run_.workers.size();
        const std::size_t microbatches = microbatches_.size();
        const std::string text =
            std::to_string(workers) + (workers == 1 ? " worker, " : " workers, ") +
            std::to_string(microbatches) + (microbatches == 1 ? " microbatch" : " microbatches");
        return text_at(left, 24, "title",
                       text + ": makespan " + to_text(run_.makespan_s, unit_) + ", bubble share " +
                           to_fixed(100 * run_.bubble_share, 1) + " %");
    }

    [[nodiscard]] std::string legend() const {
        constexpr double y = 46;
        double at = left;
        std::string legend;
        const auto entry = [&](const std::string& sign, std::string_view text) {
            legend += sign + text_at(at + 18, y, "small", std::string{text});
            at += 18 + 6.2 * static_cast<double>(text.size()) + 16;
        };
        const auto box = [&](std::string_view css) {
            return "<rect class=\"" + std::string{css} + "\" " + rect(at, y - 10, 13, 12) + "/>\n";
        };
        const auto line = [&](std::string_view css) {
            return path(css, "M" + px(at) + " " + px(y - 8) + "l13 8");
        };
        for (const auto& [kind, text] : wordings) {
            if (kinds_.contains(kind)) entry(box(word_of(kind)), text);
        }
        entry(box("bubble"), "bubble");
        if (kinds_.contains(Kind::commit)) entry(diamond("commit", at + 6, y - 4, 5), "commit");
        if (kinds_.contains(Kind::update)) entry(triangle("update", at + 6, y - 4, 5), "update");
        if (lines_.contains("activation")) entry(line("activation"), "activation");
        if (lines_.contains("gradient")) entry(line("gradient"), "gradient");
        if (lines_.contains("ending")) entry(line("ending"), "sums, parts, parameters");
        std::string note;
        if (turns_ > 1) note = "paler: later stages of a worker";
        if (transfers_ > transfers_max) {
            note += std::string{note.empty() ? "" : "; "} + "too many transfers to be shown";
        }
        if (!note.empty()) legend += text_at(right, 24, "small end", note);
        return legend;
    }

    [[nodiscard]] std::string axis() {
        height_ = bottom_ + 34;
        return time_axis({left, right, top, bottom_}, end_s_, unit_);
    }

    [[nodiscard]] std::string row_names() const {
        std::string names;
        for (std::size_t w = 0; w < run_.workers.size(); w += stride(pitch_)) {
            names += text_at(left - 8, row(w) + bar_ / 2 + 4, "end", name_of(w));
        }
        return names;
    }
    /// Every how many rows there is room for a name.
    [[nodiscard]] static std::size_t stride(double pitch) {
        return static_cast<std::size_t>(std::ceil(11 / pitch));
    }

    /// (stage, microbatch) pairs between forward and weight part, over time, to one scale.
    [[nodiscard]] std::string memory() {
        const std::size_t workers = run_.workers.size();
        const bool trains =
            kinds_.contains(Kind::backward) || kinds_.contains(Kind::backward_weight);
        if (!trains || workers > memory_rows_max) return "";
        const double pitch = std::clamp(320 / static_cast<double>(workers), 5.0, 26.0);
        std::int64_t peak = 1;
        for (std::size_t w = 0; w < workers; ++w) peak = std::max(peak, curve_of(w, 0, 0).peak);
        std::string chart =
            text_at(left, height_ + 8, "small",
                    "Activations alive, from forward to weight part, and the most of each worker");
        height_ += 18;
        for (std::size_t w = 0; w < workers; ++w, height_ += pitch) {
            const double scale = pitch * 0.8 / static_cast<double>(peak);
            const double floor = height_ + pitch * 0.9;
            const Curve curve = curve_of(w, floor, scale);
            chart += path(pitch < 10 ? "memory plain" : "memory", curve.data);
            if (w % stride(pitch) != 0) continue;
            chart += text_at(left - 8, floor - 1, "end", name_of(w)) +
                     text_at(right + 8, floor - 1, "small", std::to_string(curve.peak));
        }
        height_ += 14;
        return chart;
    }

    struct Curve {
        std::string data;
        std::int64_t peak;
    };

    /// Changes within a pixel are drawn as one peak.
    [[nodiscard]] Curve curve_of(std::size_t w, double floor, double scale) const {
        Curve curve{"M" + px(left) + " " + px(floor), 0};
        std::int64_t level = 0;  // of the curve so far
        double begin = left;     // of the pixel in which something changed last
        std::int64_t alive = 0;
        std::int64_t highest = 0;  // since then
        const auto go = [&](double at, std::int64_t to) {
            if (to == level) return;
            curve.data += "H" + px(at) + "V" + px(floor - scale * static_cast<double>(to));
            level = to;
        };
        const auto change = [&](double at, std::int64_t by) {
            if (at - begin >= 1) {
                go(begin, highest);
                go(begin + 1, alive);
                begin = at;
                highest = alive + by;
            }
            alive += by;
            highest = std::max(highest, alive);
            curve.peak = std::max(curve.peak, alive);
        };
        for (std::size_t place = 0; place < schedule_.programs[w].size(); ++place) {
            const Kind kind = schedule_.programs[w][place].kind;
            const Span span = run_.workers[w].spans[place];
            if (kind == Kind::forward) change(x(span.start_s), 1);
            if (kind == Kind::backward || kind == Kind::backward_weight) change(x(span.end_s), -1);
        }
        change(right + 1, 0);
        curve.data += "H" + px(right) + "V" + px(floor) + "z";
        return curve;
    }

    const Schedule& schedule_;
    const DryRun& run_;
    double end_s_;
    TimeUnit unit_{};
    double pitch_ = 0;   // from row to row
    double bar_ = 0;     // height of a row's boxes
    double bottom_ = 0;  // of the rows
    double height_ = 0;  // of what there is so far
    bool has_titles_ = false;
    std::set<Kind> kinds_;
    std::set<Microbatch> microbatches_;
    std::size_t computations_ = 0;
    std::size_t transfers_ = 0;
    std::vector<std::vector<StageId>> stages_;  // by worker, ascending
    std::size_t turns_ = 1;                     // stages of the worker that has most
    std::map<Look, std::string> paths_;         // of boxes without a title
    std::map<std::string_view, std::string> lines_;
    std::string boxes_;
    std::string labels_;
    std::string markers_;
};

}  // namespace

std::string draw_svg(const Schedule& schedule, const DryRun& run) {
    return Picture{schedule, run}.svg();
}

}  // namespace rhizome::schedule
