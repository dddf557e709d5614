// Numbers for the (pipeline, stage, microbatch) triples of a shape, without gaps, so that what is
// known of each lies in flat arrays. Private to this room.
#pragma once

#include <vector>

#include "core/run_shape.hpp"

namespace rhizome::schedule {

class Grid {
  public:
    explicit Grid(const RunShape& shape) {
        for (std::size_t p = 0; p < shape.pipelines.size(); ++p) {
            const PipelineId pipeline{static_cast<std::int32_t>(p)};
            const auto first = static_cast<std::size_t>(shape.first_microbatch(pipeline));
            const auto last = static_cast<std::size_t>(shape.last_microbatch(pipeline));
            lines_.push_back({size_, first, last - first});
            size_ += shape.pipelines[p].stages.size() * (last - first);
        }
    }

    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] std::size_t at(std::size_t pipeline, std::size_t stage,
                                 Microbatch microbatch) const {
        const Line& line = lines_[pipeline];
        return line.offset + stage * line.microbatches + (microbatch.index() - line.first);
    }

  private:
    struct Line {
        std::size_t offset;
        std::size_t first;
        std::size_t microbatches;
    };
    std::vector<Line> lines_;
    std::size_t size_ = 0;
};

}  // namespace rhizome::schedule
