// What a run does, for programs: FOLDER/metrics.jsonl, one JSON object per line, each with its
// "event" (docs/WATCHING.md has them all). A later run of the same folder adds to the file.
//
// Training matters more than what is told of it. Each line is one write, so that whoever follows
// the file never sees half of one that the system took whole; the first write that fails is
// reported as a warning, and then there are no more.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "core/clock.hpp"
#include "core/log.hpp"
#include "engine/train_loop.hpp"

namespace rhizome::cli {

class Metrics final : public engine::TrainObserver {
  public:
    struct Start {
        std::chrono::system_clock::time_point time;
        std::string program;      // and its version
        std::int32_t steps;       // of the run
        std::int32_t steps_done;  // of them, before it begins
        std::int64_t workers;
        std::string mathematics;  // digest
        std::string fingerprint;  // of the device
        std::string layout;       // as the run prints it
    };
    struct Save {
        std::int32_t steps;
        double seconds;
        std::int64_t bytes;
        std::string path;
    };

    /// Time runs from `start`. `log` and `clock` must outlive it.
    Metrics(const std::string& folder, std::int64_t tokens_per_step, const Clock& clock,
            Nanoseconds start, const Log& log);
    ~Metrics() override;
    Metrics(const Metrics&) = delete;
    Metrics& operator=(const Metrics&) = delete;

    void on_start(const Start& start);
    void on_step(const engine::StepResult& result) override;
    void on_evaluation(std::int32_t steps, double loss) override;
    void on_repair(const engine::RepairRecord& record) override;
    void on_renewal(std::int32_t steps, engine::Interval when) override;
    void on_save(const Save& save);
    void on_failed_save(std::int32_t steps, const std::string& reason);
    void on_end(ExitCode code, const std::string& reason, std::int32_t steps);

    /// The step of the last line about one, be it another process's.
    [[nodiscard]] std::optional<std::int32_t> last_step() const;

  private:
    [[nodiscard]] double seconds() const;
    void open();
    void write(const std::string& object);
    void give_up(const std::string& reason);

    std::string path_;
    std::int64_t tokens_per_step_;
    const Clock& clock_;
    const Log& log_;
    Nanoseconds start_;
    Nanoseconds last_step_;      // when it ended
    int descriptor_ = -1;        // none: there was trouble
    bool ends_in_line_ = false;  // what an earlier run wrote breaks off
};

}  // namespace rhizome::cli
