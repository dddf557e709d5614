// Shapes and tables for tests of schedules: one line of stages, uneven pipelines at random.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "core/layer_table.hpp"
#include "core/ownership_map.hpp"
#include "core/run_shape.hpp"

namespace rhizome::tests {

/// One pipeline in which `workers` workers hold `parts` stages each, dealt out in turn, a layer per
/// stage.
inline RunShape line_of(std::int32_t workers, std::int32_t parts, std::int32_t microbatches,
                        std::int32_t lanes) {
    RunShape shape{.workers = {}, .lanes = {microbatches, lanes}, .pipelines = {}};
    for (std::int32_t w = 0; w < workers; ++w) shape.workers.emplace_back(w);
    PipelineShape pipeline{.stages = {}, .lanes = {0, lanes}};
    for (std::int32_t s = 0; s < workers * parts; ++s) {
        pipeline.stages.push_back({WorkerId{s % workers}, {s, s + 1}});
    }
    shape.pipelines.push_back(pipeline);
    return shape;
}

/// Layers with two tensors each, several chunks in the larger; the last layer's weight is tied to
/// the first's.
inline LayerTable table_of(std::int32_t layers) {
    LayerTable table{.layers = {}, .chunk_elements = 10};
    for (std::int32_t i = 0; i < layers; ++i) {
        LayerFacts facts;
        facts.name = "layer." + std::to_string(i);
        facts.parameters = {{.spec = {"weight", Shape{25}, DType::f32}},
                            {.spec = {"bias", Shape{5}, DType::f32}}};
        if (layers > 1 && i + 1 == layers) {
            facts.parameters[0].tied_to = TensorRef{LayerId{0}, 0};
        }
        table.layers.push_back(facts);
    }
    return table;
}

/// Each chunk with this many owners, one after the other through the workers.
inline OwnershipMap owners_in_turn(const LayerTable& table, const RunShape& shape,
                                   std::int32_t redundancy) {
    OwnershipMap map;
    std::size_t next = 0;
    const std::size_t count = std::min(static_cast<std::size_t>(redundancy), shape.workers.size());
    for (const TensorRef tensor : table.owned()) {
        for (std::int32_t i = 0; i < table.chunks_of(tensor); ++i) {
            OwnedChunk chunk{.chunk = {tensor, i}, .owners = {}};
            for (std::size_t k = 0; k < count; ++k) {
                chunk.owners.push_back(shape.workers[(next + k) % shape.workers.size()]);
            }
            next += 1;
            map.chunks.push_back(chunk);
        }
    }
    return map;
}

/// Pipelines of uneven depth and uneven lanes, workers with gaps in their numbers, sometimes
/// spares. `parts` stages per worker.
inline RunShape random_shape(std::mt19937_64& random, std::int32_t layers, std::int32_t parts) {
    const auto draw = [&](std::int32_t first, std::int32_t last) {
        return first +
               static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(last - first + 1));
    };
    const std::int32_t pipelines = draw(1, 3);
    const std::int32_t lanes = draw(pipelines, 8);
    RunShape shape{.workers = {}, .lanes = {lanes * draw(1, 4), lanes}, .pipelines = {}};
    std::int32_t next_worker = draw(0, 2);
    std::int32_t lane = 0;
    for (std::int32_t p = 0; p < pipelines; ++p) {
        const std::int32_t lanes_left = lanes - lane - (pipelines - 1 - p);
        const std::int32_t taken = p + 1 == pipelines ? lanes - lane : draw(1, lanes_left);
        PipelineShape pipeline{.stages = {}, .lanes = {lane, lane + taken}};
        lane += taken;
        const std::int32_t depth = draw(1, layers / parts);
        std::vector<WorkerId> workers;
        for (std::int32_t w = 0; w < depth; ++w) {
            workers.emplace_back(next_worker);
            shape.workers.emplace_back(next_worker);
            next_worker += draw(1, 2);
        }
        std::vector<std::int32_t> borders;  // where stages begin, but for the first
        for (std::int32_t i = 1; i < layers; ++i) borders.push_back(i);
        std::shuffle(borders.begin(), borders.end(), random);
        borders.resize(static_cast<std::size_t>(depth * parts - 1));
        std::sort(borders.begin(), borders.end());
        borders.push_back(layers);
        std::int32_t first = 0;
        for (std::size_t s = 0; s < borders.size(); ++s) {
            pipeline.stages.push_back({workers[s % workers.size()], {first, borders[s]}});
            first = borders[s];
        }
        shape.pipelines.push_back(pipeline);
    }
    for (std::int32_t spares = draw(0, 1); spares > 0; --spares) {
        shape.workers.emplace_back(next_worker++);
    }
    return shape;
}

}  // namespace rhizome::tests
