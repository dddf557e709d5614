// What a person sees of a training run: a line of progress, the evaluations, and a table at the
// end. Where nobody can watch a line change, each is printed once and has no control characters.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/clock.hpp"
#include "engine/train_loop.hpp"

namespace rhizome::cli {

struct ProgressConfig {
    std::int32_t steps;
    std::int32_t steps_before = 0;  // that an earlier run has done
    std::int64_t tokens_per_step;
    std::int64_t samples_per_step;
    std::int64_t samples_per_pass;
    std::int32_t log_interval;  // steps between lines
};

struct Screen {
    enum class Kind : std::uint8_t {
        lines,    // a file, a pipe, a batch job's log
        terminal  // the current line may be written over
    };
    Kind kind = Kind::lines;
    std::size_t columns = 80;
};

/// What a descriptor leads to.
[[nodiscard]] Screen screen_of(int output);

class Progress final : public engine::TrainObserver {
  public:
    using Write = std::function<void(std::string_view)>;

    /// Time runs from here. `write` gets text as it is to appear, line ends included.
    Progress(const ProgressConfig& config, Screen screen, const Clock& clock, Write write);

    /// Ends an open line, so that an error begins on one of its own.
    ~Progress() override;
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void on_step(const engine::StepResult& result) override;
    void on_evaluation(std::int32_t steps, double loss) override;
    /// So many steps are done; there may have been more before a loss.
    void go_back_to(std::int32_t steps) { steps_done_ = steps; }
    /// A line of its own, with the run's place in front.
    void say(std::int32_t steps, const std::string& text);

    /// The final table, without what only main knows; `extra` rows are added below.
    [[nodiscard]] std::string table(
        const std::vector<std::pair<std::string, std::string>>& extra) const;

  private:
    [[nodiscard]] double seconds() const;
    [[nodiscard]] std::string step_line(const engine::StepResult& result, double seconds_now) const;
    void print_line(const std::string& line);

    struct Evaluation {
        std::int32_t steps;
        double loss;
    };
    struct Evaluations {
        Evaluation last;
        Evaluation best;
    };

    ProgressConfig config_;
    Screen screen_;
    const Clock& clock_;
    Write write_;
    Nanoseconds start_;
    std::optional<double> shown_at_;  // seconds; when the terminal's line was last written
    bool line_open_ = false;          // a line without its end stands on the terminal
    std::int32_t steps_done_;
    std::deque<double> recent_losses_;
    std::optional<Evaluations> evaluations_;
};

}  // namespace rhizome::cli
