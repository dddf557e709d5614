#include "cli/voice.hpp"

#include "core/text.hpp"

namespace rhizome::cli {
namespace {

// Steps that the first member may have finished without a word when it is found to be lost: it is
// at most one ahead of those who find out.
constexpr std::size_t recent_steps = 3;

double seconds_of(Nanoseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

Voice::Voice(Config config, const Clock& clock, const Log& log, Speaks speaks)
    : config_{std::move(config)},
      clock_{clock},
      log_{log},
      speaks_{speaks == Speaks::yes},
      start_{clock.now()},
      progress_{config_.progress, config_.screen, clock, [this](std::string_view text) {
                    if (speaks_) write_all(config_.output, text);
                }} {
    if (speaks_) open_metrics();
}

void Voice::open_metrics() {
    if (config_.folder.empty()) return;
    metrics_.emplace(config_.folder, config_.tokens_per_step, clock_, start_, log_);
}

void Voice::take_over() {
    if (speaks_) return;
    speaks_ = true;
    open_metrics();
    if (!metrics_) return;
    const auto written = metrics_->last_step();
    for (const engine::StepResult& result : recent_) {
        if (!written || result.step.value() > *written) metrics_->on_step(result);
    }
}

void Voice::on_start(const Metrics::Start& start) {
    if (metrics_) metrics_->on_start(start);
}

void Voice::on_step(const engine::StepResult& result) {
    progress_.on_step(result);
    if (metrics_) metrics_->on_step(result);
    recent_.push_back(result);
    if (recent_.size() > recent_steps) recent_.pop_front();
}

void Voice::on_evaluation(std::int32_t steps, double loss) {
    progress_.on_evaluation(steps, loss);
    if (metrics_) metrics_->on_evaluation(steps, loss);
}

void Voice::on_repair(const engine::RepairRecord& record) {
    repairs_.add(record);
    progress_.go_back_to(record.steps);
    std::erase_if(recent_, [&](const engine::StepResult& result) {
        return result.step.value() >= record.steps;  // that will be done again
    });
    progress_.say(record.steps, to_text(record));
    if (metrics_) metrics_->on_repair(record);
}

void Voice::on_renewal(std::int32_t steps, engine::Interval when) {
    progress_.say(steps, "ready for further losses (" + time_text(when.end - when.begin) + ")");
    if (metrics_) metrics_->on_renewal(steps, when);
}

void Voice::on_save(const engine::SaveEnd& end) {
    const double seconds = seconds_of(end.took);
    progress_.say(end.steps, "saved " + visible(end.path) + "  " +
                                 to_short(static_cast<double>(end.bytes)) + "B in " +
                                 to_text_short(seconds) + " s");
    if (!metrics_) return;
    metrics_->on_save(
        {.steps = end.steps, .seconds = seconds, .bytes = end.bytes, .path = end.path});
}

void Voice::on_failed_save(const engine::SaveEnd& end) {
    if (metrics_) metrics_->on_failed_save(end.steps, end.problem);
}

void Voice::on_end(ExitCode code, const std::string& reason, std::int32_t steps) {
    if (metrics_) metrics_->on_end(code, reason, steps);
}

void Voice::table(const std::vector<std::pair<std::string, std::string>>& extra) {
    if (!speaks_) return;
    auto rows = repairs_.rows(seconds_of(clock_.now() - start_));
    rows.insert(rows.end(), extra.begin(), extra.end());
    write_all(config_.output, "\n" + progress_.table(rows));
}

}  // namespace rhizome::cli
