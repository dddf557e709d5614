// Each line of the metrics, read back by a JSON reader that knows nothing of how they were made.
#include "cli/metrics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "unit/data_temp_folder.hpp"

namespace rhizome::cli {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

constexpr double infinite = std::numeric_limits<double>::infinity();

struct Writer {
    explicit Writer(const std::string& folder) : metrics{folder, 512, clock, clock.now(), log} {}

    std::vector<std::string> warnings;
    Log log{[this](std::string_view line) { warnings.emplace_back(line); }};
    ManualClock clock;
    Metrics metrics;
};

std::vector<std::string> lines_of(const std::string& path) {
    std::ifstream file{path};
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
}

Metrics::Start a_start() {
    return {.time = std::chrono::system_clock::time_point{std::chrono::seconds{1'800'000'000}},
            .program = "rhizome 0.1.0",
            .steps = 10,
            .steps_done = 4,
            .workers = 6,
            .mathematics = "c0d4",
            .fingerprint = "reference",
            .layout = "layout  \"2\" pipelines\nowners\t2\n"};
}

class MetricsFile : public testing::Test {
  protected:
    [[nodiscard]] Json only() const {
        const auto lines = lines_of(folder_.path("metrics.jsonl"));
        EXPECT_EQ(lines.size(), 1U);
        return lines.empty() ? Json{} : Json::parse(lines.front());
    }
    data::TempFolder folder_;
    Writer run_{folder_.path()};
};

TEST_F(MetricsFile, SaysWhatAStartIs) {
    run_.metrics.on_start(a_start());
    EXPECT_EQ(only(), Json::parse(R"({"event": "start",
        "time": "2027-01-15T08:00:00Z",
        "program": "rhizome 0.1.0",
        "steps": 10,
        "steps_done": 4,
        "workers": 6,
        "mathematics_digest": "c0d4",
        "fingerprint": "reference",
        "tokens_per_step": 512,
        "layout": "layout  \"2\" pipelines\nowners\t2\n"})"));
}

TEST_F(MetricsFile, SaysWhatAStepWas) {
    run_.clock.advance(std::chrono::milliseconds{250});
    run_.metrics.on_step({Step{4}, 2.5, 0.125, 1e-3});
    EXPECT_EQ(only(), Json::parse(R"({"event": "step",
        "step": 4,
        "loss": 2.5,
        "gradient_norm": 0.125,
        "learning_rate": 0.001,
        "tokens": 2560,
        "seconds": 0.25,
        "tokens_per_s": 2048.0})"));
}

TEST_F(MetricsFile, CountTheSpeedOfEachStepByItself) {
    run_.clock.advance(std::chrono::seconds{4});
    run_.metrics.on_step({Step{0}, 2.5, 0.125, 1e-3});
    run_.clock.advance(std::chrono::seconds{10});
    run_.metrics.on_evaluation(1, 2.25);
    run_.clock.advance(std::chrono::seconds{1});
    run_.metrics.on_step({Step{1}, 2.5, 0.125, 1e-3});
    const auto lines = lines_of(folder_.path("metrics.jsonl"));
    ASSERT_EQ(lines.size(), 3U);
    EXPECT_EQ(Json::parse(lines[0]).at("tokens_per_s"), 128);
    EXPECT_EQ(Json::parse(lines[2]).at("tokens_per_s"), 512);
    EXPECT_EQ(Json::parse(lines[2]).at("seconds"), 15);
}

TEST_F(MetricsFile, SaysWhatAnEvaluationFound) {
    run_.clock.advance(std::chrono::seconds{3});
    run_.metrics.on_evaluation(5, 1.75);
    EXPECT_EQ(only(), Json::parse(R"({"event": "evaluation",
        "steps": 5,
        "loss": 1.75,
        "seconds": 3.0})"));
}

TEST_F(MetricsFile, SaysWhatWasSaved) {
    run_.metrics.on_save({.steps = 5, .seconds = 0.5, .bytes = 1234567890123, .path = "a/b \"c\""});
    EXPECT_EQ(only(), Json::parse(R"({"event": "save",
        "steps": 5,
        "seconds": 0.5,
        "bytes": 1234567890123,
        "path": "a/b \"c\""})"));
}

TEST_F(MetricsFile, SaysWhatCouldNotBeSaved) {
    run_.metrics.on_failed_save(5, "disk full");
    EXPECT_EQ(only(), Json::parse(R"({"event": "save_failed",
        "steps": 5,
        "reason": "disk full"})"));
}

TEST_F(MetricsFile, SaysHowARunEnded) {
    run_.clock.advance(std::chrono::seconds{60});
    run_.metrics.on_end(ExitCode::stopped, "somebody asked for it", 7);
    EXPECT_EQ(only(), Json::parse(R"({"event": "end",
        "code": 6,
        "reason": "somebody asked for it",
        "steps": 7,
        "seconds": 60.0})"));
}

TEST_F(MetricsFile, HasNullWhereANumberIsNone) {
    run_.metrics.on_step({Step{0}, std::nan(""), infinite, -infinite});  // and in no time
    const Json step = only();
    for (const char* key : {"loss", "gradient_norm", "learning_rate", "tokens_per_s"}) {
        EXPECT_TRUE(step.at(key).is_null()) << key;
    }
}

TEST_F(MetricsFile, StaysUtf8WhateverAPathIsMadeOf) {
    run_.metrics.on_save({.steps = 1, .seconds = 0, .bytes = 1, .path = "a\xff\x01z"});
    EXPECT_EQ(only().at("path"), "a\xef\xbf\xbd\x01z");
}

TEST_F(MetricsFile, GrowsByALaterRun) {
    run_.metrics.on_end(ExitCode::stopped, "x", 1);
    Writer later{folder_.path()};
    later.metrics.on_start(a_start());
    const auto lines = lines_of(folder_.path("metrics.jsonl"));
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(Json::parse(lines[0]).at("event"), "end");
    EXPECT_EQ(Json::parse(lines[1]).at("event"), "start");
}

TEST(MetricsOfABrokenOffRun, AreFollowedByALineOfItsOwn) {
    const data::TempFolder folder;
    static_cast<void>(folder.write("metrics.jsonl", "{\"event\": \"st"));
    Writer run{folder.path()};
    run.metrics.on_failed_save(1, "x");
    run.metrics.on_failed_save(2, "x");
    const auto lines = lines_of(folder.path("metrics.jsonl"));
    ASSERT_EQ(lines.size(), 3U);
    EXPECT_EQ(lines[0], "{\"event\": \"st");
    EXPECT_EQ(Json::parse(lines[1]).at("steps"), 1);
    EXPECT_EQ(Json::parse(lines[2]).at("steps"), 2);
}

void tell_all(Metrics& metrics) {
    metrics.on_start(a_start());
    metrics.on_step({Step{0}, 1, 1, 1});
    metrics.on_end(ExitCode::done, "x", 1);
}

TEST(MetricsTrouble, IsReportedOnceAndThenThereAreNoMore) {
    Writer run{"/nowhere/at/all"};
    tell_all(run.metrics);
    ASSERT_EQ(run.warnings.size(), 1U);
    EXPECT_THAT(run.warnings.front(), HasSubstr("/nowhere/at/all/metrics.jsonl"));
    EXPECT_THAT(run.warnings.front(), HasSubstr("No such file"));
}

/// As on a full disk.
class FilesOfAtMost {
  public:
    explicit FilesOfAtMost(rlim_t bytes) : handler_{std::signal(SIGXFSZ, SIG_IGN)} {
        EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
        const rlimit limit{bytes, before_.rlim_max};
        EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    }
    ~FilesOfAtMost() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        static_cast<void>(std::signal(SIGXFSZ, handler_));
    }
    FilesOfAtMost(const FilesOfAtMost&) = delete;
    FilesOfAtMost& operator=(const FilesOfAtMost&) = delete;

  private:
    rlimit before_{};
    void (*handler_)(int);
};

TEST(MetricsTrouble, OfAFullDiskIsReportedOnce) {
    const data::TempFolder folder;
    Writer run{folder.path()};
    run.metrics.on_failed_save(1, "x");
    {
        const FilesOfAtMost limit{60};  // the end of the second line does not fit
        run.metrics.on_failed_save(2, "x");
    }
    tell_all(run.metrics);
    EXPECT_EQ(run.warnings.size(), 1U);
    const auto lines = lines_of(folder.path("metrics.jsonl"));
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(Json::parse(lines[0]).at("steps"), 1);
    // The next run begins a line of its own behind what is left of the second.
    Writer next{folder.path()};
    next.metrics.on_failed_save(3, "x");
    EXPECT_EQ(Json::parse(lines_of(folder.path("metrics.jsonl")).at(2)).at("steps"), 3);
}

TEST(MetricsTrouble, OfAPipeBlocksNobody) {
    const data::TempFolder folder;
    ASSERT_EQ(::mkfifo(folder.path("metrics.jsonl").c_str(), 0600), 0);
    Writer run{folder.path()};
    tell_all(run.metrics);
    EXPECT_EQ(run.warnings.size(), 1U);
}

}  // namespace
}  // namespace rhizome::cli
