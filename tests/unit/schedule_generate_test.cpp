// Every generator against what its paper promises, with equal costs: one unit for each direction of
// a stage (forward, input part, weight part).
#include "schedule/generate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedule/draw.hpp"
#include "schedule/dry_run.hpp"
#include "support/comment_drawing.hpp"
#include "support/shapes.hpp"

namespace rhizome::schedule {
namespace {

using tests::line_of;

struct Result {
    double makespan;
    std::vector<std::int64_t> peaks;  // activations alive, by worker
    double longest_span;              // of a worker, from its first computation to its last
};

Result run_of(Style style, std::int32_t workers, std::int32_t parts, std::int32_t microbatches) {
    const RunShape shape = line_of(workers, parts, microbatches, 1);
    const Costs costs = equal_costs(workers * parts);
    const Schedule schedule = with_wires(generate(style, shape), costs);
    const auto run = dry_run(schedule, costs);
    EXPECT_TRUE(run.has_value()) << name_of(style) << " " << workers << " x " << microbatches;
    if (!run) return {};
    Result result{run->makespan_s, {}, 0};
    for (std::size_t w = 0; w < run->workers.size(); ++w) {
        const WorkerRun& worker = run->workers[w];
        result.peaks.push_back(worker.peak_activations);
        std::optional<double> first;
        for (std::size_t i = 0; i < worker.spans.size(); ++i) {
            if (!is_compute(schedule.programs[w][i].kind)) continue;
            if (!first) first = worker.spans[i].start_s;
            result.longest_span = std::max(result.longest_span, worker.spans[i].end_s - *first);
        }
    }
    return result;
}

template <class Body>
void for_all_sizes(const Body& body) {
    for (std::int32_t stages = 1; stages <= 12; ++stages) {
        for (std::int32_t microbatches = 1; microbatches <= 32; ++microbatches) {
            SCOPED_TRACE(std::to_string(stages) + " stages, " + std::to_string(microbatches) +
                         " microbatches");
            body(stages, microbatches);
        }
    }
}

TEST(Generate, GPipeAnd1F1BTakeOneUnitPerMicrobatchAndFillAndDrainOnce) {
    for_all_sizes([](std::int32_t stages, std::int32_t microbatches) {
        const double expected = 3.0 * (microbatches + stages - 1);
        EXPECT_EQ(run_of(Style::gpipe, stages, 1, microbatches).makespan, expected);
        EXPECT_EQ(run_of(Style::one_f_one_b, stages, 1, microbatches).makespan, expected);
    });
}

TEST(Generate, PeakActivationsAreThePublishedOnes) {
    for_all_sizes([](std::int32_t stages, std::int32_t microbatches) {
        const auto gpipe = run_of(Style::gpipe, stages, 1, microbatches).peaks;
        const auto f1b1 = run_of(Style::one_f_one_b, stages, 1, microbatches).peaks;
        const auto h1 = run_of(Style::zero_bubble_h1, stages, 1, microbatches).peaks;
        const auto h2 = run_of(Style::zero_bubble_h2, stages, 1, microbatches).peaks;
        for (std::int32_t s = 0; s < stages; ++s) {
            const auto place = static_cast<std::size_t>(s);
            EXPECT_EQ(gpipe[place], microbatches);
            EXPECT_EQ(f1b1[place], std::min(stages - s, microbatches));
            EXPECT_EQ(h1[place], std::min(stages, microbatches));
            EXPECT_EQ(h2[place], std::min(2 * stages - 1, microbatches));
        }
    });
}

// Qi et al. 2023, table 1: the bubble of H1 is (p - 1)(F + B - W), of H2 (p - 1)(F + B - 2W)
// between a worker's first and last instruction; one and zero times p - 1 with equal costs.
TEST(Generate, ZeroBubbleSchedulesHaveTheBubblesOfTheirPaper) {
    for_all_sizes([](std::int32_t stages, std::int32_t microbatches) {
        if (microbatches >= stages) {
            EXPECT_EQ(run_of(Style::zero_bubble_h1, stages, 1, microbatches).makespan,
                      3.0 * microbatches + (stages - 1));
        }
        if (microbatches >= 2 * stages - 1) {
            const Result h2 = run_of(Style::zero_bubble_h2, stages, 1, microbatches);
            EXPECT_EQ(h2.longest_span, 3.0 * microbatches);
            EXPECT_EQ(h2.makespan, 3.0 * microbatches + (stages - 1));
        }
    });
}

// Narayanan et al. 2021, Megatron-LM, 2.2.2: v stages per worker divide the bubble by v.
TEST(Generate, InterleavingDividesTheBubble) {
    for (const std::int32_t parts : {2, 3, 4}) {
        for_all_sizes([&](std::int32_t workers, std::int32_t microbatches) {
            if (microbatches % workers != 0) return;
            const double bubble_1f1b = 3.0 * parts * (workers - 1);  // same work in fewer stages
            EXPECT_EQ(run_of(Style::interleaved, workers, parts, microbatches).makespan,
                      3.0 * parts * microbatches + bubble_1f1b / parts);
        });
    }
}

// The same paper: forwards before the first backward are 2 (p - w - 1) + (v - 1) p on worker w.
TEST(Generate, InterleavingKeepsTheActivationsOfItsWarmUp) {
    for (const std::int32_t parts : {2, 3}) {
        for_all_sizes([&](std::int32_t workers, std::int32_t microbatches) {
            if (microbatches % workers != 0) return;
            const auto peaks = run_of(Style::interleaved, workers, parts, microbatches).peaks;
            for (std::int32_t w = 0; w < workers; ++w) {
                EXPECT_EQ(peaks[static_cast<std::size_t>(w)],
                          std::min(2 * (workers - w - 1) + (parts - 1) * workers + 1,
                                   parts * microbatches));
            }
        });
    }
}

TEST(Generate, InterleavingWorksForAnyNumberOfMicrobatches) {
    for (const std::int32_t parts : {1, 2, 3}) {
        for_all_sizes([&](std::int32_t workers, std::int32_t microbatches) {
            const Result result = run_of(Style::interleaved, workers, parts, microbatches);
            // Never worse than going through all stages as plain 1F1B would.
            EXPECT_LE(result.makespan,
                      3.0 * parts * (microbatches + workers - 1) + 3.0 * parts * workers);
        });
    }
}

TEST(Generate, WiresAddNoTimeWhereLinksCostNothing) {
    for (const Style style : all_styles()) {
        for_all_sizes([&](std::int32_t stages, std::int32_t microbatches) {
            const RunShape shape = line_of(stages, 1, microbatches, 1);
            const Costs costs = equal_costs(stages);
            const Schedule bare = generate(style, shape);
            const auto without = dry_run_computation(bare, costs);
            const auto with = dry_run(with_wires(bare, costs), costs);
            ASSERT_TRUE(without && with);
            EXPECT_EQ(without->makespan_s, with->makespan_s);
        });
    }
}

TEST(Generate, LooksLikeTheDrawingsInTheHeader) {
    const std::string header = tests::read_source("schedule/generate.hpp");
    const auto expect_drawing = [&](Style style, std::int32_t workers, std::int32_t parts,
                                    std::int32_t microbatches) {
        const Schedule schedule = generate(style, line_of(workers, parts, microbatches, 1));
        const auto run = dry_run_computation(schedule, equal_costs(workers * parts));
        ASSERT_TRUE(run);
        const std::string marker = "Drawing of " + std::string{name_of(style)};
        EXPECT_EQ(draw(schedule, *run, 1.0), tests::comment_drawing(header, marker)) << marker;
    };
    expect_drawing(Style::gpipe, 4, 1, 4);
    expect_drawing(Style::one_f_one_b, 4, 1, 4);
    expect_drawing(Style::interleaved, 2, 2, 2);
    expect_drawing(Style::zero_bubble_h1, 4, 1, 8);
    expect_drawing(Style::zero_bubble_h2, 4, 1, 8);
}

TEST(Generate, EachStyleSaysWhichShapesItCannotHave) {
    const RunShape two_each = line_of(2, 2, 4, 1);
    EXPECT_THAT(find_misfit(Style::one_f_one_b, two_each).value_or(""),
                testing::HasSubstr("1f1b: pipeline 0 has several stages on one worker"));
    EXPECT_EQ(find_misfit(Style::interleaved, two_each), std::nullopt);
    EXPECT_EQ(find_misfit(Style::evaluation, two_each), std::nullopt);
    RunShape there_and_back = two_each;
    std::swap(there_and_back.pipelines[0].stages[2].worker,
              there_and_back.pipelines[0].stages[3].worker);
    EXPECT_THAT(find_misfit(Style::interleaved, there_and_back).value_or(""),
                testing::HasSubstr("in turn"));
}

TEST(Generate, NamesOfStylesReadBack) {
    for (const Style style : all_styles()) EXPECT_EQ(style_of(name_of(style)), style);
    EXPECT_EQ(style_of("2f2b"), std::nullopt);
}

}  // namespace
}  // namespace rhizome::schedule
