// Small schedules that are right, told by hand, with the networks that they are for.
#pragma once

#include <array>
#include <initializer_list>
#include <ostream>
#include <string>
#include <vector>

#include "schedule/check.hpp"
#include "support/schedule_text.hpp"

namespace rhizome::schedule::by_hand {

struct ScheduleCase {
    std::string name;
    Purpose purpose;
    LayerTable table;
    OwnershipMap owners;
    Schedule schedule;

    friend std::ostream& operator<<(std::ostream& out, const ScheduleCase& one) {
        return out << one.name;
    }
};

/// One layer: how many chunks its own tensor has (0: no tensor), and whether it uses that of layer
/// 0 a second time.
struct LayerSketch {
    std::int32_t chunks;
    bool is_tied = false;
};

inline LayerTable table_of(std::initializer_list<LayerSketch> sketches) {
    LayerTable table{.layers = {}, .chunk_elements = 10};
    for (const LayerSketch& sketch : sketches) {
        LayerFacts layer{.name = "layer" + std::to_string(table.layers.size()),
                         .parameters = {},
                         .outputs = {},
                         .fields = {},
                         .costs = {}};
        if (sketch.chunks > 0) {
            layer.parameters.push_back({.spec = {"own", Shape{10 * sketch.chunks - 3}}});
        }
        if (sketch.is_tied) {
            layer.parameters.push_back({.spec = {"again", Shape{7}},
                                        .decay = Decay::none,
                                        .tied_to = TensorRef{LayerId{0}, 0}});
        }
        table.layers.push_back(std::move(layer));
    }
    return table;
}

/// The owners of each chunk in the order of their identity.
inline OwnershipMap owners_of(const LayerTable& table,
                              const std::vector<std::vector<std::int32_t>>& owners) {
    OwnershipMap map;
    for (const TensorRef tensor : table.owned()) {
        for (std::int32_t chunk = 0; chunk < table.chunks_of(tensor); ++chunk) {
            OwnedChunk owned{.chunk = {tensor, chunk}, .owners = {}};
            for (const std::int32_t worker : owners.at(map.chunks.size())) {
                owned.owners.emplace_back(worker);
            }
            map.chunks.push_back(std::move(owned));
        }
    }
    ENSURE(map.chunks.size() == owners.size());
    return map;
}

/// Stages as (worker, first layer, one past the last layer).
struct PipelineSketch {
    LaneRange lanes;
    std::vector<std::array<std::int32_t, 3>> stages;
};

inline RunShape shape_of(std::int32_t workers, LaneShape lanes,
                         const std::vector<PipelineSketch>& pipelines) {
    RunShape shape{.workers = {}, .lanes = lanes, .pipelines = {}};
    for (std::int32_t worker = 0; worker < workers; ++worker) shape.workers.emplace_back(worker);
    for (const PipelineSketch& sketch : pipelines) {
        PipelineShape pipeline{.stages = {}, .lanes = sketch.lanes};
        for (const auto& [worker, first, last] : sketch.stages) {
            pipeline.stages.push_back({WorkerId{worker}, {first, last}});
        }
        shape.pipelines.push_back(std::move(pipeline));
    }
    return shape;
}

/// One worker does everything: two microbatches in one lane.
inline ScheduleCase case_alone() {
    const LayerTable table = table_of({{2}, {1, true}});
    const Story story = Story{shape_of(1, {2, 1}, {{{0, 1}, {{0, 0, 2}}}})}.does(
        0, "F0:0 R0:0 B0:0 F0:1 I0:1 W0:1 C U");
    return {"alone", Purpose::training, table, owners_of(table, {{0}, {0}, {0}}), story.schedule()};
}

/// One computes and owns a part, one owns the rest, one is a spare. Two lanes of one microbatch.
inline ScheduleCase case_with_owner_and_spare() {
    const LayerTable table = table_of({{2}, {1, true}});
    Story story{shape_of(3, {2, 2}, {{{0, 2}, {{0, 0, 2}}}})};
    story.does(0, "F0:1 F0:0 B0:0 B0:1 SS0:0-1>1").parts({0, 1}).all_do("C");
    story.does(0, "U").does(1, "U SW>0");
    return {"with owner and spare", Purpose::training, table, owners_of(table, {{0}, {1}, {1, 0}}),
            story.schedule()};
}

/// 1F1B, two stages, two microbatches. The last stage uses a tensor of the first again.
inline ScheduleCase case_two_stages() {
    const LayerTable table = table_of({{1}, {1, true}});
    const Schedule schedule = schedule_of(shape_of(2, {2, 1}, {{{0, 1}, {{0, 0, 1}, {1, 1, 2}}}}),
                                          {"F0:0 SA0:0>1 F0:1 SA0:1>1 RG0:0<1 B0:0 RG0:1<1 B0:1"
                                           " RS1:0-0<1 SP>1 RP<1 C U SW>1",
                                           "RA1:0<0 F1:0 B1:0 RA1:1<0 SG1:0>0 F1:1 B1:1 SG1:1>0"
                                           " SS1:0-0>0 RP<0 SP>0 C U RW<0"});
    return {"two stages", Purpose::training, table, owners_of(table, {{0}, {1}}), schedule};
}

/// Input and weight parts by themselves, one recompute. Each owns what the other computes, the
/// first stage has no parameters, and the last nothing to send afterwards.
inline ScheduleCase case_split_backward() {
    const LayerTable table = table_of({{0}, {2}});
    Story story{shape_of(2, {2, 2}, {{{0, 2}, {{0, 0, 1}, {1, 1, 2}}}})};
    story.does(0, "F0:0 SA0:0>1 F0:1 SA0:1>1").does(1, "F1:0 R1:0 I1:0 SG1:0>0 F1:1 I1:1");
    story.does(0, "I0:0").does(1, "SG1:1>0 W1:1 W1:0 SS1:0-1>0").does(0, "I0:1 W0:0 W0:1");
    story.parts({0, 1}).all_do("C").does(0, "U SW>1");
    return {"split backward", Purpose::training, table, owners_of(table, {{0}, {0}}),
            story.schedule()};
}

/// Pipelines of depth 1 and 2. Their lanes make the tree ((0 1) 2): a sum of one pipeline alone,
/// and two sums that have to be sent one by one.
inline ScheduleCase case_two_pipelines() {
    const LayerTable table = table_of({{2}, {1}});
    Story story{shape_of(3, {3, 3}, {{{0, 1}, {{0, 0, 2}}}, {{1, 3}, {{1, 0, 1}, {2, 1, 2}}}})};
    story.does(0, "F0:0 B0:0 SS0:0-0>1 SS0:0-0>2");
    story.does(1, "F0:1 SA0:1>2 F0:2 SA0:2>2").does(2, "F1:1 B1:1 SG1:1>1 F1:2 B1:2 SG1:2>1");
    story.does(1, "B0:1 B0:2 SS0:1-1>0 SS0:2-2>0 SS0:1-1>2 SS0:2-2>2");
    story.parts({0, 1, 2}).all_do("C U").does(1, "SW>0").does(2, "SW>0");
    return {"two pipelines", Purpose::training, table, owners_of(table, {{0, 1}, {1, 2}, {2}}),
            story.schedule()};
}

/// Two workers with two stages each, dealt out in turn; two microbatches of one lane.
inline ScheduleCase case_interleaved() {
    const LayerTable table = table_of({{1}, {1}, {0}, {1}});
    Story story{shape_of(2, {2, 1}, {{{0, 1}, {{0, 0, 1}, {1, 1, 2}, {0, 2, 3}, {1, 3, 4}}}})};
    story.does(0, "F0:0 SA0:0>1 F0:1 SA0:1>1").does(1, "F1:0 SA1:0>0 F1:1 SA1:1>0");
    story.does(0, "F2:0 SA2:0>1 F2:1 SA2:1>1").does(1, "F3:0 B3:0 SG3:0>0 F3:1 B3:1 SG3:1>0");
    story.does(0, "B2:0 SG2:0>1 B2:1 SG2:1>1").does(1, "B1:0 SG1:0>0 B1:1 SG1:1>0");
    story.does(0, "B0:0 B0:1").does(1, "SS3:0-0>0").parts({0, 1}).all_do("C U").does(0, "SW>1");
    return {"interleaved", Purpose::training, table, owners_of(table, {{0}, {1}, {0}}),
            story.schedule()};
}

/// There and back again: neighbouring stages 1 and 2 are on one worker, and send each other
/// nothing.
inline ScheduleCase case_there_and_back() {
    const LayerTable table = table_of({{1}, {1}, {1}, {0, true}});
    Story story{shape_of(2, {2, 1}, {{{0, 1}, {{0, 0, 1}, {1, 1, 2}, {1, 2, 3}, {0, 3, 4}}}})};
    story.does(0, "F0:0 SA0:0>1").does(1, "F1:0 F2:0 SA2:0>0").does(0, "F0:1 SA0:1>1 F3:0 B3:0");
    story.does(1, "F1:1 F2:1 SA2:1>0").does(0, "F3:1 SG3:0>1").does(1, "B2:0 B1:0 SG1:0>0");
    story.does(0, "B3:1 SG3:1>1 B0:0").does(1, "I2:1 I1:1 SG1:1>0 W1:1 W2:1").does(0, "B0:1");
    story.parts({0, 1}).all_do("C U");
    return {"there and back", Purpose::training, table, owners_of(table, {{0}, {1}, {1}}),
            story.schedule()};
}

inline ScheduleCase case_evaluation() {
    const LayerTable table = table_of({{2}, {1, true}});
    Story story{shape_of(4, {4, 2}, {{{0, 1}, {{0, 0, 2}}}, {{1, 2}, {{1, 0, 1}, {2, 1, 2}}}})};
    story.does(0, "F0:1 F0:0").does(1, "F0:2 SA0:2>2 F0:3 SA0:3>2").does(2, "F1:3 F1:2");
    story.parts({0, 2});
    return {"evaluation", Purpose::evaluation, table, owners_of(table, {{0}, {1, 3}, {3}}),
            story.schedule()};
}

inline std::vector<ScheduleCase> all_schedule_cases() {
    return {case_alone(),          case_with_owner_and_spare(),
            case_two_stages(),     case_split_backward(),
            case_two_pipelines(),  case_interleaved(),
            case_there_and_back(), case_evaluation()};
}

}  // namespace rhizome::schedule::by_hand
