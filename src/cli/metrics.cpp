#include "cli/metrics.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/values.hpp"
#include "state/facts.hpp"

namespace rhizome::cli {
namespace {

/// Keeps the order in which its members were given.
using Json = nlohmann::ordered_json;

/// On one line. What is no number becomes null, and bytes that are no UTF-8 are replaced.
std::string line_of(const Json& object) {
    return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

double seconds_of(Nanoseconds time) { return std::chrono::duration<double>(time).count(); }

/// So long ago, in microseconds since 1970.
std::int64_t wall_us(Nanoseconds ago) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::microseconds>(now - ago).count();
}

std::string last_error() { return std::generic_category().message(errno); }

}  // namespace

Metrics::Metrics(const std::string& folder, std::int64_t tokens_per_step, const Clock& clock,
                 Nanoseconds start, const Log& log)
    : path_{folder + "/metrics.jsonl"},
      tokens_per_step_{tokens_per_step},
      clock_{clock},
      log_{log},
      start_{start},
      last_step_{clock.now()} {
    open();
}

Metrics::~Metrics() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

void Metrics::open() {
    // Not blocking: a pipe of that name would wait for a reader.
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (descriptor_ < 0) {
        give_up(last_error());
        return;
    }
    struct stat facts{};
    if (::fstat(descriptor_, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        give_up("is no ordinary file");
        return;
    }
    char last = '\n';
    if (facts.st_size > 0) static_cast<void>(::pread(descriptor_, &last, 1, facts.st_size - 1));
    ends_in_line_ = last != '\n';
}

void Metrics::give_up(const std::string& reason) {
    log_.warn("metrics cannot be written to " + shown(path_) + " (" + reason +
              "): there are no more of them, and training goes on");
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
}

void Metrics::write(const std::string& object) {
    if (descriptor_ < 0) return;
    const std::string line = (ends_in_line_ ? "\n" : "") + object;
    ends_in_line_ = false;
    ssize_t written = -1;
    do {
        written = ::write(descriptor_, line.data(), line.size());
    } while (written < 0 && errno == EINTR);
    if (written == static_cast<ssize_t>(line.size())) return;
    give_up(written < 0 ? last_error() : "only a part of a line was taken");
}

double Metrics::seconds() const { return seconds_of(clock_.now() - start_); }

void Metrics::on_start(const Start& start) {
    write(line_of({{"event", "start"},
                   {"time", state::utc_text(start.time)},
                   {"program", start.program},
                   {"steps", start.steps},
                   {"steps_done", start.steps_done},
                   {"workers", start.workers},
                   {"mathematics_digest", start.mathematics},
                   {"fingerprint", start.fingerprint},
                   {"tokens_per_step", tokens_per_step_},
                   {"layout", start.layout}}));
}

void Metrics::on_step(const engine::StepResult& result) {
    const Nanoseconds now = clock_.now();
    const double took = seconds_of(now - last_step_);
    last_step_ = now;
    const auto tokens = static_cast<double>(tokens_per_step_);
    write(line_of({{"event", "step"},
                   {"step", result.step.value()},
                   {"loss", result.loss},
                   {"gradient_norm", result.gradient_norm},
                   {"learning_rate", result.learning_rate},
                   {"tokens", tokens_per_step_ * (std::int64_t{result.step.value()} + 1)},
                   {"seconds", seconds()},
                   // Infinite where the clock has not moved, and then null.
                   {"tokens_per_s", tokens / took}}));
}

void Metrics::on_evaluation(std::int32_t steps, double loss) {
    write(line_of(
        {{"event", "evaluation"}, {"steps", steps}, {"loss", loss}, {"seconds", seconds()}}));
    last_step_ = clock_.now();  // of the next step, this is no part
}

void Metrics::on_repair(const engine::RepairRecord& record) {
    last_step_ = clock_.now();
    const double decide_s = seconds_of(record.decided - record.opened);
    const double move_s = seconds_of(record.ended - record.decided);
    if (record.between_steps()) {
        write(line_of({{"event", "replan"},
                       {"steps", record.steps},
                       {"epoch", record.epoch.value()},
                       {"rung", static_cast<int>(record.rung)},
                       {"reason", record.reason},
                       {"decide_s", decide_s},
                       {"move_s", move_s},
                       {"bytes", record.bytes_moved},
                       {"seconds", seconds()}}));
        return;
    }
    Json lost = Json::array();
    for (const WorkerId worker : record.lost) lost.push_back(worker.value());
    write(line_of({{"event", "repair"},
                   {"steps", record.steps},
                   {"epoch", record.epoch.value()},
                   {"lost", lost},
                   {"noticed", name_of(record.noticed)},
                   {"rung", static_cast<int>(record.rung)},
                   {"reason", record.reason},
                   {"attempts", record.attempts},
                   {"agree_s", seconds_of(record.opened - record.began)},
                   {"decide_s", decide_s},
                   {"move_s", move_s},
                   {"again_s", seconds_of(record.again)},
                   {"lanes_kept", record.lanes_kept},
                   {"steps_again", record.steps_again},
                   {"bytes", record.bytes_moved},
                   {"time_us", wall_us(clock_.now() - record.ended)},
                   {"seconds", seconds()}}));
}

void Metrics::on_renewal(std::int32_t steps, engine::Interval when) {
    last_step_ = clock_.now();
    write(line_of({{"event", "renewal"},
                   {"steps", steps},
                   {"renew_s", seconds_of(when.end - when.begin)},
                   {"seconds", seconds()}}));
}

std::optional<std::int32_t> Metrics::last_step() const {
    constexpr off_t tail = 65536;  // more than several lines
    struct stat facts{};
    if (descriptor_ < 0 || ::fstat(descriptor_, &facts) != 0) return std::nullopt;
    const off_t from = std::max<off_t>(0, facts.st_size - tail);
    std::string text(static_cast<std::size_t>(facts.st_size - from), '\0');
    const ssize_t size = ::pread(descriptor_, text.data(), text.size(), from);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, size)));
    std::optional<std::int32_t> last;
    std::istringstream lines{text};
    for (std::string line; std::getline(lines, line);) {
        const Json object = Json::parse(line, nullptr, false);
        if (!object.is_object()) continue;
        const std::string event = object.value("event", "");
        if (event == "step") last = object.value("step", -1);
        if (event == "repair") last = object.value("steps", 0) - 1;  // steps after it come again
    }
    return last;
}

void Metrics::on_save(const Save& save) {
    write(line_of({{"event", "save"},
                   {"steps", save.steps},
                   {"seconds", save.seconds},
                   {"bytes", save.bytes},
                   {"path", save.path}}));
}

void Metrics::on_failed_save(std::int32_t steps, const std::string& reason) {
    write(line_of({{"event", "save_failed"}, {"steps", steps}, {"reason", reason}}));
}

void Metrics::on_end(ExitCode code, const std::string& reason, std::int32_t steps) {
    write(line_of({{"event", "end"},
                   {"code", static_cast<int>(code)},
                   {"reason", reason},
                   {"steps", steps},
                   {"seconds", seconds()}}));
}

}  // namespace rhizome::cli
