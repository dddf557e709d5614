// The layouts in which the contract is tested, and the training that is laid out in them: the
// layout test has them with real ranks, the kill matrix with losses at every place.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "support/engine_run.hpp"

namespace rhizome::tests {

/// What the workers of a run form.
struct Pipelines {
    std::vector<std::int32_t> depths;
    std::string cut{};       // with one stage per worker; empty: by costs
    std::string fine_cut{};  // with two
};

/// Of eight layers: embedding, five blocks, norm, head.
inline const std::vector<Pipelines>& contract_pipelines() {
    static const std::vector<Pipelines> all{
        {{1}},
        {{4}},
        {{1, 1, 1, 1}},
        {{2, 2}},
        {{2, 2, 2, 2}},
        {{2, 2, 2}},  // eight lanes: 3, 3, 2
        {{3, 3}, "1,6", "1,2,5,6,7"},
        {{3, 2}},
    };
    return all;
}

inline constexpr std::array tyings{model::Tying::tied, model::Tying::untied};
inline constexpr std::array recomputes{engine::Recompute::none, engine::Recompute::all};

inline std::int32_t workers_of(const Pipelines& pipelines) {
    std::int32_t workers = 0;
    for (const std::int32_t depth : pipelines.depths) workers += depth;
    return workers;
}

inline Arrangement arrangement_of(const Pipelines& pipelines, schedule::Style style,
                                  std::int32_t owners, engine::Recompute recompute) {
    const bool interleaved = style == schedule::Style::interleaved;
    return {.depths = pipelines.depths,
            .parts = interleaved ? 2 : 1,
            .cut = interleaved ? pipelines.fine_cut : pipelines.cut,
            .style = style,
            .owners = owners,
            .recompute = recompute};
}

inline SmallOptions contract_options(model::Tying tying,
                                     MakeDevice make_device = device::make_reference_device) {
    return {.tying = tying,
            .dropout = 0.2,
            .dtype = DType::f32,
            .rows = 2,
            .lanes = {16, 8},
            .chunk_elements = 90,
            .blocks = 5,
            .make_device = make_device};
}

}  // namespace rhizome::tests
