// Runs of the engine on the fake world, in the time of a paced device, whose timelines lie in a
// folder.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "cli/timeline.hpp"
#include "support/paced_run.hpp"
#include "unit/data_temp_folder.hpp"
#include "world/fake_world.hpp"

namespace rhizome::cli {

inline constexpr Nanoseconds wall{1'800'000'000'000'000'000};

struct Lines {
    std::vector<std::string> lines;
    Log log{[this](std::string_view line) { lines.emplace_back(line); }};
};

inline std::string content_of(const std::string& path) {
    std::stringstream text;
    text << std::ifstream{path}.rdbuf();
    return text.str();
}

/// A run of five steps whose steps 1 to 2 are recorded, evaluated after every second step.
struct RecordedRun {
    explicit RecordedRun(std::int32_t workers, std::int64_t spans_max = 100'000) {
        using namespace tests;  // NOLINT: of the engine on the fake world
        const SmallOptions options{.rows = 1, .lanes = {8, 4}, .blocks = 3};
        const model::Network network = network_of(options);
        const MemoryText text = small_text();
        const Subject subject{network, text, options.rows, options.lanes};
        const auto outcomes =
            world::run_fake_world({.workers = workers, .seed = 1}, [&](world::World& world) {
                const auto inner = device::make_reference_device(1);
                const auto device = device::make_paced_device(
                    *inner, pace_of(costs_of(Accelerator{}, network.table())), world.clock());
                TimelineFile timeline{state::make_file_system(),
                                      {.folder = folder.path(),
                                       .steps = {1, 2},
                                       .worker = world.self(),
                                       .members = world.members(),
                                       .wall_offset = wall,
                                       .spans_max = spans_max},
                                      lines.log};
                const Arrangement arrangement{.depths = {workers}};
                const WorkerEnd end =
                    run_worker(world, *device, subject, arrangement,
                               {.steps = 5, .evaluate_interval = 2, .evaluation_microbatches = 3},
                               std::chrono::seconds{60}, &timeline);
                EXPECT_EQ(end.end.status, CommStatus::ok);
                timeline.finish();
            });
        for (const auto& outcome : outcomes) {
            if (outcome.error) std::rethrow_exception(outcome.error);
        }
    }

    [[nodiscard]] std::string file(std::string_view name) const {
        return folder.path() + "/timeline/" + std::string{name};
    }

    data::TempFolder folder;
    Lines lines;
};

}  // namespace rhizome::cli
