#include "cli/progress.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rhizome::tests {
namespace {

using cli::Progress;
using cli::ProgressConfig;
using cli::Screen;
using testing::HasSubstr;
using testing::Not;

/// A run that takes half a second a step, as it appears on the screen.
struct Watched {
    explicit Watched(Screen::Kind kind, std::int32_t log_interval = 4)
        : progress{{.steps = 10,
                    .tokens_per_step = 1000,
                    .samples_per_step = 20,
                    .samples_per_pass = 80,
                    .log_interval = log_interval},
                   Screen{.kind = kind},
                   clock,
                   [this](std::string_view text) { *sink += text; }} {}

    void steps(std::int32_t count) {
        for (std::int32_t i = 0; i < count; ++i) {
            clock.advance(std::chrono::milliseconds{500});
            progress.on_step({Step{done}, 3.0 - 0.1 * done, 1.25, 1e-3});
            ++done;
        }
    }

    ManualClock clock;
    std::string shown;
    std::string* sink = &shown;
    std::int32_t done = 0;
    Progress progress;
};

TEST(Progress, GivesLossRateSpeedAndTimeLeft) {
    Watched run{Screen::Kind::lines};
    run.steps(1);
    EXPECT_EQ(run.shown,
              "step  1/10  loss 3.0000  norm 1.250  rate 0.001  2.0k tokens/s  ETA 5 s\n");
    // Nine steps of half a second are left.
}

TEST(Progress, PrintsTheFirstTheLastAndEveryNthStep) {
    Watched run{Screen::Kind::lines};
    run.steps(10);
    std::vector<std::string> numbers;
    for (std::size_t at = run.shown.find("step"); at != std::string::npos;
         at = run.shown.find("step", at + 1)) {
        numbers.push_back(run.shown.substr(at + 5, 5));
    }
    EXPECT_EQ(numbers, (std::vector<std::string>{" 1/10", " 4/10", " 8/10", "10/10"}));
}

TEST(Progress, WritesOverTheLineOnATerminalOnly) {
    Watched terminal{Screen::Kind::terminal};
    terminal.steps(3);
    EXPECT_THAT(terminal.shown, HasSubstr("\r\x1b[Kstep  3/10"));
    EXPECT_THAT(terminal.shown, Not(testing::EndsWith("\n")));
    terminal.steps(1);  // a line that stays takes its place
    EXPECT_THAT(terminal.shown, HasSubstr("\r\x1b[Kstep  4/10"));
    EXPECT_THAT(terminal.shown, testing::EndsWith("\n"));

    Watched file{Screen::Kind::lines};
    file.steps(4);
    EXPECT_THAT(file.shown, Not(HasSubstr("\r")));
}

TEST(Progress, DoesNotFloodTheTerminal) {
    Watched run{Screen::Kind::terminal, 1000};
    for (int i = 0; i < 9; ++i) {
        run.clock.advance(std::chrono::milliseconds{1});
        run.progress.on_step({Step{i}, 1.0, 1.0, 1e-3});
    }
    EXPECT_EQ(std::count(run.shown.begin(), run.shown.end(), '\r'), 1);
}

TEST(Progress, KeepsTheChangingLineWithinTheTerminal) {
    std::string shown;
    ManualClock clock;
    Progress progress{{.steps = 10,
                       .tokens_per_step = 1000,
                       .samples_per_step = 20,
                       .samples_per_pass = 80,
                       .log_interval = 100},
                      Screen{.kind = Screen::Kind::terminal, .columns = 20},
                      clock,
                      [&](std::string_view text) { shown = text; }};
    for (int i = 0; i < 2; ++i) {
        clock.advance(std::chrono::milliseconds{500});
        progress.on_step({Step{i}, 3.0, 1.25, 1e-3});
    }
    EXPECT_EQ(shown, "\r\x1b[Kstep  2/10  loss 3.");
}

TEST(Progress, EndsAnOpenLineWhenItGoes) {
    std::string shown;
    {
        Watched run{Screen::Kind::terminal};
        run.steps(2);
        EXPECT_THAT(run.shown, Not(testing::EndsWith("\n")));
        run.sink = &shown;
    }
    EXPECT_EQ(shown, "\n");
}

TEST(Progress, TheTableSumsUp) {
    Watched run{Screen::Kind::lines};
    run.steps(4);
    run.progress.on_evaluation(4, 2.5);
    run.steps(4);
    run.progress.on_evaluation(8, 2.75);
    const std::string table = run.progress.table({{"weights", "abc"}});
    EXPECT_THAT(table, HasSubstr("steps              8\n"));
    EXPECT_THAT(table, HasSubstr("samples            160 (2.00 passes)\n"));
    EXPECT_THAT(table, HasSubstr("training loss      2.6500 (mean of the last 8 steps)\n"));
    EXPECT_THAT(table, HasSubstr("validation loss    2.7500 (best 2.5000 after step 4)\n"));
    EXPECT_THAT(table, HasSubstr("time               4 s\n"));
    EXPECT_THAT(table, HasSubstr("tokens per second  2.0k\n"));
    EXPECT_THAT(table, HasSubstr("weights            abc\n"));
}

TEST(Progress, ARunWithoutStepsHasATableToo) {
    Watched run{Screen::Kind::lines};
    EXPECT_THAT(run.progress.table({}), HasSubstr("steps              0\n"));
}

}  // namespace
}  // namespace rhizome::tests
