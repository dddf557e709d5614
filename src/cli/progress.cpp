#include "cli/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <numeric>

#include "core/text.hpp"

namespace rhizome::cli {
namespace {

constexpr std::size_t recent_steps = 10;     // whose mean loss the table shows
constexpr double terminal_interval_s = 0.1;  // between two writings of the terminal's line

}  // namespace

Screen screen_of(int output) {
    if (isatty(output) != 1) return {};
    winsize size{};
    if (ioctl(output, TIOCGWINSZ, &size) != 0 || size.ws_col < 2) {
        return {Screen::Kind::terminal};
    }
    return {Screen::Kind::terminal, size.ws_col};
}

Progress::Progress(const ProgressConfig& config, Screen screen, const Clock& clock, Write write)
    : config_{config},
      screen_{screen},
      clock_{clock},
      write_{std::move(write)},
      start_{clock.now()},
      steps_done_{config.steps_before} {}

Progress::~Progress() {
    if (line_open_) write_("\n");
}

double Progress::seconds() const {
    return std::chrono::duration<double>(clock_.now() - start_).count();
}

std::string Progress::step_line(const engine::StepResult& result, double seconds_now) const {
    const double per_step = seconds_now / (steps_done_ - config_.steps_before);
    const std::string steps = std::to_string(config_.steps);
    const double tokens_per_second =
        per_step > 0 ? static_cast<double>(config_.tokens_per_step) / per_step : 0.0;
    return "step " + right_aligned(std::to_string(steps_done_), steps.size()) + "/" + steps +
           "  loss " + to_fixed(result.loss, 4) + "  norm " + to_fixed(result.gradient_norm, 3) +
           "  rate " + to_text_short(result.learning_rate) + "  " + to_short(tokens_per_second) +
           " tokens/s  ETA " + to_duration(per_step * (config_.steps - steps_done_));
}

void Progress::print_line(const std::string& line) {
    // On a terminal the line takes the place of the progress line that stands there.
    write_((line_open_ ? "\r\x1b[K" : "") + line + "\n");
    line_open_ = false;
}

void Progress::on_step(const engine::StepResult& result) {
    ++steps_done_;
    recent_losses_.push_back(result.loss);
    if (recent_losses_.size() > recent_steps) recent_losses_.pop_front();

    const double now = seconds();
    if (steps_done_ == config_.steps_before + 1 || steps_done_ % config_.log_interval == 0 ||
        steps_done_ == config_.steps) {
        print_line(step_line(result, now));
    } else if (screen_.kind == Screen::Kind::terminal &&
               (!shown_at_ || now - *shown_at_ >= terminal_interval_s)) {
        // Longer than the terminal is wide, it could not be written over.
        write_("\r\x1b[K" + step_line(result, now).substr(0, screen_.columns - 1));
        line_open_ = true;
        shown_at_ = now;
    }
}

void Progress::on_evaluation(std::int32_t steps, double loss) {
    const Evaluation now{steps, loss};
    const bool is_best = !evaluations_ || loss < evaluations_->best.loss;
    evaluations_ = {.last = now, .best = is_best ? now : evaluations_->best};
    say(steps, "validation loss " + to_fixed(loss, 4));
}

void Progress::say(std::int32_t steps, const std::string& text) {
    const std::string all = std::to_string(config_.steps);
    print_line("step " + right_aligned(std::to_string(steps), all.size()) + "/" + all + "  " +
               text);
}

std::string Progress::table(const std::vector<std::pair<std::string, std::string>>& extra) const {
    const double time = seconds();
    const double samples =
        static_cast<double>(steps_done_) * static_cast<double>(config_.samples_per_step);
    std::vector<std::pair<std::string, std::string>> rows;
    const std::int32_t here = steps_done_ - config_.steps_before;
    rows.emplace_back(
        "steps",
        std::to_string(steps_done_) +
            (config_.steps_before > 0 ? " (" + std::to_string(here) + " in this run)" : ""));
    rows.emplace_back("samples",
                      to_fixed(samples, 0) + " (" +
                          to_fixed(samples / static_cast<double>(config_.samples_per_pass), 2) +
                          " passes)");
    if (!recent_losses_.empty()) {
        const double sum = std::accumulate(recent_losses_.begin(), recent_losses_.end(), 0.0);
        rows.emplace_back("training loss",
                          to_fixed(sum / static_cast<double>(recent_losses_.size()), 4) +
                              " (mean of the last " + std::to_string(recent_losses_.size()) +
                              (recent_losses_.size() == 1 ? " step)" : " steps)"));
    }
    if (evaluations_) {
        const auto& [last, best] = *evaluations_;
        rows.emplace_back("validation loss", to_fixed(last.loss, 4) + " (best " +
                                                 to_fixed(best.loss, 4) + " after step " +
                                                 std::to_string(best.steps) + ")");
    }
    rows.emplace_back("time", to_duration(time));
    if (time > 0) {
        rows.emplace_back("tokens per second",
                          to_short(static_cast<double>(config_.tokens_per_step) * here / time));
    }
    rows.insert(rows.end(), extra.begin(), extra.end());
    std::string text;
    for (const auto& [name, value] : rows) text += "  " + padded(name, 19) + value + "\n";
    return text;
}

}  // namespace rhizome::cli
