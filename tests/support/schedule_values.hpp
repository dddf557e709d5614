// What the executor of schedules knows about right and wrong: the values that must come out, and
// who has a use for what.
#pragma once

#include <algorithm>
#include <set>
#include <string>

#include "support/schedule_cases.hpp"

namespace rhizome::schedule::by_hand {

struct Wrong {
    std::string text;
};

inline void demand(bool condition, const std::string& text) {
    if (!condition) throw Wrong{text};
}
inline std::string key(const std::string& what, std::int32_t stage, std::int32_t microbatch) {
    return what + " " + std::to_string(stage) + ":" + std::to_string(microbatch);
}
inline std::string key(const std::string& what, ChunkRef chunk) {
    return what + " " + std::to_string(chunk.tensor.layer.value()) + "/" +
           std::to_string(chunk.tensor.tensor) + "/" + std::to_string(chunk.chunk);
}
inline std::string sum_key(std::int32_t layer, LaneRange lanes) {
    return "sum " + std::to_string(layer) + " " + std::to_string(lanes.first) + "-" +
           std::to_string(lanes.last);
}

/// Does it use exactly the fields of its kind?
inline void look_at_form(const RunShape& shape, Purpose purpose, std::size_t w,
                         const Instruction& i) {
    const std::string word{word_of(i.kind)};
    const bool is_message = word.size() == 2;
    const bool by_lanes = word == "SS" || word == "RS";
    const bool by_microbatch =
        std::set<std::string>{"F", "B", "I", "W", "R", "SA", "RA", "SG", "RG"}.contains(word);
    demand(i.peer.has_value() == is_message, "peer");
    demand(by_lanes || i.lanes == LaneRange{0, 0}, "lanes");
    demand(by_microbatch || i.microbatch == Microbatch{0}, "microbatch");
    demand(by_microbatch || by_lanes || i.stage == StageId{0}, "stage");
    demand(!is_message || (*i.peer != shape.workers[w] &&
                           std::count(shape.workers.begin(), shape.workers.end(), *i.peer)),
           "unknown peer");
    if (purpose == Purpose::training) return;
    demand(std::set<std::string>{"F", "SA", "RA", "SP", "RP"}.contains(word), "evaluation");
}

/// The pipeline in which the worker computes that stage, and that microbatch.
inline const PipelineShape& pipeline_of(const RunShape& shape, WorkerId worker,
                                        const Instruction& i) {
    const std::int32_t length = shape.lanes.length();
    for (const PipelineShape& pipeline : shape.pipelines) {
        if (i.stage.index() >= pipeline.stages.size()) continue;
        if (pipeline.stages[i.stage.index()].worker != worker) continue;
        demand(is_sum(i.kind) || (pipeline.lanes.first * length <= i.microbatch.value() &&
                                  i.microbatch.value() < pipeline.lanes.last * length),
               "microbatch of another pipeline");
        return pipeline;
    }
    throw Wrong{"stage of another worker"};
}

inline bool owns(WorkerId worker, const OwnedChunk& owned) {
    return std::count(owned.owners.begin(), owned.owners.end(), worker) > 0;
}
inline bool uses(const LayerTable& table, LayerRange layers, const OwnedChunk& owned) {
    const auto all = table.uses_of(owned.chunk.tensor);
    return std::any_of(all.begin(), all.end(), [&](TensorRef use) {
        return layers.first <= use.layer.value() && use.layer.value() < layers.last;
    });
}
inline bool holds(const ScheduleCase& what, WorkerId worker, const OwnedChunk& owned) {
    for (const PipelineShape& pipeline : what.schedule.shape.pipelines) {
        for (const StageShape& stage : pipeline.stages) {
            if (stage.worker == worker && uses(what.table, stage.layers, owned)) return true;
        }
    }
    return false;
}

/// The values that must come out, straight from their definition: no pipelines, no messages.
class ExpectedValues {
  public:
    ExpectedValues(const LayerTable& table, LaneShape lanes)
        : table_{table}, lanes_{lanes}, layers_{static_cast<std::int32_t>(table.layers.size())} {}

    [[nodiscard]] static std::string forward(std::string value, LayerRange layers) {
        for (std::int32_t k = layers.first; k < layers.last; ++k) value += "." + std::to_string(k);
        return value;
    }
    [[nodiscard]] static std::string backward(std::string value, LayerRange layers) {
        for (std::int32_t k = layers.last; k > layers.first; --k) {
            value += "'" + std::to_string(k - 1);
        }
        return value;
    }
    [[nodiscard]] static std::string weight(const std::string& input, const std::string& gradient) {
        return "[" + input + "|" + gradient + "]";
    }
    [[nodiscard]] static std::string add(const std::string& left, const std::string& right) {
        return left.empty() ? right : "(" + left + "+" + right + ")";
    }
    /// Where the tree over [first, last) parts.
    [[nodiscard]] static std::int32_t middle_of(LaneRange tree) {
        std::int32_t left = 1;
        while (2 * left < tree.last - tree.first) left *= 2;
        return tree.first + left;
    }

    [[nodiscard]] std::string loss(std::int32_t microbatch) const {
        return "loss(" + output(microbatch, layers_) + ")";
    }
    [[nodiscard]] std::string gradient(ChunkRef chunk) const {
        std::string text;
        for (const TensorRef use : table_.uses_of(chunk.tensor)) {
            text += "&" + tree(use.layer.value(), {0, lanes_.lanes});
        }
        return text;
    }

  private:
    [[nodiscard]] static std::string output(std::int32_t microbatch, std::int32_t layers) {
        return forward("x" + std::to_string(microbatch), {0, layers});
    }
    [[nodiscard]] std::string tree(std::int32_t layer, LaneRange lanes) const {
        if (lanes.size() > 1) {
            const std::int32_t middle = middle_of(lanes);
            return add(tree(layer, {lanes.first, middle}), tree(layer, {middle, lanes.last}));
        }
        std::string sum;
        const std::int32_t length = lanes_.microbatches / lanes_.lanes;
        for (std::int32_t m = lanes.first * length; m < lanes.last * length; ++m) {
            const std::string gradient =
                backward("g(" + output(m, layers_) + ")", {layer + 1, layers_});
            sum = add(sum, weight(output(m, layer), gradient));
        }
        return sum;
    }

    const LayerTable& table_;
    LaneShape lanes_;
    std::int32_t layers_;
};

}  // namespace rhizome::schedule::by_hand
