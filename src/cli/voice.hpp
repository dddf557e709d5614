// What a run says of itself, to people and to programs. Every worker keeps up with it, and the
// first member speaks; when it is lost, the next one goes on where it was.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/metrics.hpp"
#include "cli/progress.hpp"
#include "cli/run_repair.hpp"
#include "engine/saver.hpp"
#include "engine/train_loop.hpp"

namespace rhizome::cli {

enum class Speaks : std::uint8_t { no, yes };

class Voice final : public engine::TrainObserver {
  public:
    struct Config {
        ProgressConfig progress;
        Screen screen;
        int output;          // a descriptor
        std::string folder;  // of the run, for metrics; empty: there are none
        std::int64_t tokens_per_step;
    };
    /// `clock` and `log` must outlive it. Time runs from here.
    Voice(Config config, const Clock& clock, const Log& log, Speaks speaks);

    /// From now on this worker speaks for the run, after one that is lost: what that one may not
    /// have written of the last steps is written again, by its number once.
    void take_over();
    [[nodiscard]] bool speaks() const { return speaks_; }

    void on_start(const Metrics::Start& start);
    void on_step(const engine::StepResult& result) override;
    void on_evaluation(std::int32_t steps, double loss) override;
    void on_repair(const engine::RepairRecord& record) override;
    void on_renewal(std::int32_t steps, engine::Interval when) override;
    void on_save(const engine::SaveEnd& end);
    void on_failed_save(const engine::SaveEnd& end);
    void on_end(ExitCode code, const std::string& reason, std::int32_t steps);
    /// The final table, with these rows as the last.
    void table(const std::vector<std::pair<std::string, std::string>>& extra);

  private:
    void open_metrics();

    Config config_;
    const Clock& clock_;
    const Log& log_;
    bool speaks_;
    Nanoseconds start_;
    Progress progress_;
    RepairAccount repairs_;
    std::optional<Metrics> metrics_;  // if it speaks
    std::deque<engine::StepResult> recent_;
};

}  // namespace rhizome::cli
