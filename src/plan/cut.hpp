// Cuts a network into stages: by costs, so that the slowest stage is as fast as the workers' memory
// allows, or by hand. A pipeline is as fast as its slowest stage (Narayanan et al.: PipeDream, SOSP
// 2019, section 3.1), so that is what is minimised, exactly, not by a heuristic.
//
// That no cut exists is an answer, not an error: whoever tries many shapes wants to try the next.
// Invariant: the same arguments give the same cut everywhere. Among the cuts with the same slowest
// stage it is the one with the least sum of squares of the stages' seconds, so that the other
// stages are even too; among those, the one whose borders come first.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/layer_table.hpp"
#include "core/run_shape.hpp"
#include "schedule/costs.hpp"

namespace rhizome::plan {

/// What a layer asks of the worker that computes it. No number is negative.
struct LayerLoad {
    double seconds;                     // of one microbatch, forward and backward
    std::int64_t state_bytes = 0;       // parameters, gradients, optimizer; once
    std::int64_t microbatch_bytes = 0;  // for each microbatch in flight
};

/// From what the layers cost and hold. A holder keeps a copy of tied parameters as well, so they
/// count at each use; state_bytes_per_element says what is kept for one.
[[nodiscard]] std::vector<LayerLoad> layer_loads(const LayerTable& table,
                                                 const schedule::Costs& costs,
                                                 std::int64_t state_bytes_per_element);

/// What a stage may ask of its worker.
struct StageHost {
    double slowness = 1;  // positive; a worker of 2 takes twice the seconds
    std::int64_t memory_bytes_max = std::numeric_limits<std::int64_t>::max();
    std::int32_t in_flight = 1;  // microbatches whose activations are kept at once
};

/// Layers by stage: neighbours, none left out, none empty.
using Cut = std::vector<LayerRange>;

/// Why there is none. message() reads "problem (reason), hint".
struct NoCut {
    std::string problem;
    std::string reason;
    std::string hint;

    [[nodiscard]] std::string message() const;
    friend bool operator==(const NoCut&, const NoCut&) = default;
};

using MaybeCut = std::variant<Cut, NoCut>;

[[nodiscard]] double stage_seconds(const std::vector<LayerLoad>& layers, LayerRange stage,
                                   const StageHost& host);
[[nodiscard]] std::int64_t stage_bytes(const std::vector<LayerLoad>& layers, LayerRange stage,
                                       const StageHost& host);
/// Of the slowest stage.
[[nodiscard]] double slowest_stage_s(const std::vector<LayerLoad>& layers, const Cut& cut,
                                     const std::vector<StageHost>& hosts);

/// One stage for each host, in that order. O(stages * layers^2).
[[nodiscard]] MaybeCut cut_layers(const std::vector<LayerLoad>& layers,
                                  const std::vector<StageHost>& hosts);

/// By hand, in one of two forms. A text that begins with layer 0 lists the stages, first and last
/// layer of each: "0-3,4,5-8". Any other lists the first layers of all stages but the first, which
/// cannot be 0: "4,5" is the same cut. Digits, commas and hyphens, nothing else.
[[nodiscard]] MaybeCut parse_cut(std::string_view text, std::int32_t layers);

/// In the first form.
[[nodiscard]] std::string text_of(const Cut& cut);

}  // namespace rhizome::plan
