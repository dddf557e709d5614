// Everything a run needs to know, resolved: nothing is left open and no name is left to look up.
// main builds one and passes parts of it down; after parsing nobody changes it. What each field
// means and may be stands in the table of keys (keys.cpp), which also prints the help.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.hpp"
#include "data/text_data.hpp"
#include "device/device.hpp"
#include "engine/recompute.hpp"
#include "model/gpt_config.hpp"
#include "model/optimizer_config.hpp"
#include "schedule/generate.hpp"

namespace rhizome::cli {

enum class DeviceKind : std::uint8_t { reference, cpu, paced };

/// How long what may hang is looked on, in seconds. Invariant: each is more than the one before.
struct BoundsConfig {
    double stopped_s = 10;   // a rank that was stopped is killed after that
    double stuck_s = 600;    // and one that shows no sign of life
    double wait_s = 1800;    // a peer that does not answer is taken for lost
    double repair_s = 3600;  // whoever is in no epoch so long after a loss leaves
    friend bool operator==(const BoundsConfig&, const BoundsConfig&) = default;
};

/// What a run is ready for.
struct LossesConfig {
    std::int32_t in_a_row = 31;  // so many, without a calm moment in between
    double calm_s = 60;          // a moment is calm so long after the last repair
    friend bool operator==(const LossesConfig&, const LossesConfig&) = default;
};

/// The accelerator and the network whose timing the paced device has.
struct PaceConfig {
    double flops_per_s = 1e9;
    double link_bytes_per_s = 1e9;
    double link_latency_s = 1e-5;
    friend bool operator==(const PaceConfig&, const PaceConfig&) = default;
};

/// Steps, counted from 0, both included.
struct StepRange {
    std::int32_t first = 0;
    std::int32_t last = 0;
    friend bool operator==(const StepRange&, const StepRange&) = default;
};

struct RunConfig {
    // --- mathematics: the weights after step k depend on these and on nothing else ---
    std::string model_size;  // the name that was given, or empty; `model` holds what it stands for
    model::GptConfig model;
    device::Precision precision = device::Precision::fp32;
    std::uint64_t seed = 1;
    std::int32_t microbatch_size = 8;  // samples in a microbatch
    std::int32_t microbatches = 8;     // in a step
    std::int32_t lanes = 4;            // divides microbatches
    std::int64_t chunk_elements = 65536;
    model::OptimizerConfig optimizer;

    // --- both: format and share are mathematics, the paths are layout ---
    data::DataConfig data;  // its share is 0 where a validation file is named

    // --- layout: how the run is done, not what comes out ---
    std::int32_t steps = 1000;
    DeviceKind device = DeviceKind::cpu;
    std::int32_t threads = 1;
    engine::Recompute recompute = engine::Recompute::none;
    std::vector<std::int32_t> depths{1};  // workers of each pipeline
    std::int32_t parts = 1;               // stages per worker
    std::string cut;                      // layers of the stages by hand; empty: by costs
    schedule::Style style = schedule::Style::one_f_one_b;
    std::string costs;        // of layers, a file of `rhizome profile`; empty: estimated
    std::int32_t owners = 2;  // copies of each chunk's state; 0: on every worker
    BoundsConfig bounds;
    LossesConfig losses;
    PaceConfig pace;                          // of the paced device
    std::int32_t evaluate_interval = 100;     // steps; 0: only at the end
    std::int32_t evaluate_microbatches = 32;  // at most
    std::int32_t log_interval = 10;           // steps
    std::int32_t save_interval = 100;         // steps; 0: only at the end
    std::int32_t save_keep = 3;               // newest states
    std::int32_t save_keep_every = 0;         // and those of every so many steps; 0: none
    std::string from;                         // a state to begin with; empty: the initial one
    std::optional<StepRange> timeline;        // that are recorded
    std::string faults;                       // meant to happen (engine/fault_plan.hpp)

    friend bool operator==(const RunConfig&, const RunConfig&) = default;
};

/// A configuration file from which the same configuration is read again. Keys that are not given
/// (a size, a validation file) are left out.
[[nodiscard]] std::string to_text(const RunConfig& config);

/// The keys of one kind as they are resolved, as lines of `key = value`: those that decide the
/// weights, without the name of a size; and the others.
[[nodiscard]] std::string mathematics_keys(const RunConfig& config);
[[nodiscard]] std::string layout_keys(const RunConfig& config);

/// Two runs with one digest compute the same weights on the same kind of device. It is made of all
/// mathematics keys as they are resolved and of the content of the training data (Datasets::
/// train_digest). The name of a size does not enter, nor do paths.
[[nodiscard]] std::string mathematics_digest(const RunConfig& config,
                                             std::string_view train_digest);

/// What two or more keys say against each other, each being right by itself.
struct Conflict {
    std::string message;            // problem (reason), hint
    std::vector<std::string> keys;  // that it is about
};

/// The first of them, if any. A configuration without one is safe to run: no count leaves its
/// integer type and no random number is drawn twice.
[[nodiscard]] std::optional<Conflict> find_conflict(const RunConfig& config);

}  // namespace rhizome::cli
