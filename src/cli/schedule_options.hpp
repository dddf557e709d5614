// What `rhizome-plan schedule` is asked: which schedule, at what costs, and what to show of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/sources.hpp"
#include "model/gpt_config.hpp"
#include "schedule/generate.hpp"

namespace rhizome::cli {

enum class Show : std::uint8_t { summary, drawing, text };

struct ScheduleOptions {
    std::string file;  // a schedule to read instead of generating one
    schedule::Style style = schedule::Style::one_f_one_b;
    std::vector<std::int32_t> depths{4};  // workers of each pipeline
    std::int32_t parts = 1;               // stages per worker
    std::int32_t spares = 0;              // workers in no pipeline
    std::int32_t microbatches = 8;
    std::int32_t lanes = 0;   // 0: one per pipeline, or the nearest divisor above
    std::int32_t layers = 0;  // 0: as many as the deepest pipeline has stages
    std::string model_size;   // a network by name instead of equal layers
    std::int32_t microbatch_size = 1;
    std::string costs;  // measured ones, a file; empty: equal or estimated
    std::string cut;    // by hand, for every pipeline; empty: by costs
    std::int32_t owners = 2;
    bool recompute = false;
    double flops_per_s = 1e14;
    double link_bytes_per_s = 2.5e10;
    double link_latency_s = 1e-5;
    Show show = Show::drawing;
    std::string svg;  // file to write; empty: none
};

/// Throws ConfigError.
[[nodiscard]] ScheduleOptions parse_schedule_options(const Arguments& arguments);

[[nodiscard]] std::string plan_help_text();
[[nodiscard]] std::string schedule_help_text();

}  // namespace rhizome::cli
