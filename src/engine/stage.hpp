// One stage of this worker at work: which microbatch has which memory, and the gradient of its
// lanes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "engine/gradient_sum.hpp"
#include "engine/messenger.hpp"
#include "engine/stage_memory.hpp"

namespace rhizome::engine {

class Stage {
  public:
    /// `part` are the lanes of the pipeline.
    Stage(device::Device& device, device::Stream& stream, const model::Network& network,
          LayerRange layers, std::span<const TensorSpec> fields, std::int32_t rows,
          StageMemory::Counts counts, LaneShape lanes, LaneRange part)
        : layers_{layers},
          memory_{
              std::make_unique<StageMemory>(device, stream, network, layers, fields, rows, counts)},
          gradients_{device, network.table(), std::span{&layers, 1}, lanes, part},
          in_flight_(static_cast<std::size_t>(counts.slots)) {
        gradients_.reserve(GradientSum::sets_in_order(lanes, part));
        for (std::int32_t i = counts.slots; i-- > 0;) {
            free_slots_.push_back(static_cast<std::size_t>(i));
        }
        for (std::int32_t i = counts.work_areas; i-- > 0;) {
            free_areas_.push_back(static_cast<std::size_t>(i));
        }
    }

    /// What a microbatch has here while it has a slot.
    struct Open {
        std::size_t slot;
        std::optional<std::size_t> work_area{};
        std::optional<Messenger::Receipt> activation{};  // under way to this stage
        std::optional<Messenger::Receipt> gradient{};
    };

    [[nodiscard]] LayerRange layers() const { return layers_; }
    [[nodiscard]] StageMemory& memory() { return *memory_; }
    [[nodiscard]] GradientSum& gradients() { return gradients_; }
    [[nodiscard]] Open& at(Microbatch microbatch) { return open_.at(microbatch); }

    /// Gives the microbatch the slot that was closed first: its messages are most likely gone, but
    /// in_flight has to be waited for.
    void open(Microbatch microbatch) {
        ENSURE(!free_slots_.empty());
        const std::size_t slot = free_slots_.front();
        free_slots_.erase(free_slots_.begin());
        ENSURE(open_.emplace(microbatch, Open{.slot = slot}).second);
    }
    void close(Microbatch microbatch) {
        const auto found = open_.find(microbatch);
        ENSURE(found != open_.end() && !found->second.work_area);
        free_slots_.push_back(found->second.slot);
        open_.erase(found);
    }
    /// Messages that still leave from a slot.
    [[nodiscard]] std::int32_t& in_flight(std::size_t slot) { return in_flight_[slot]; }

    void open_work_area(Microbatch microbatch) {
        Open& open = at(microbatch);
        ENSURE(!open.work_area && !free_areas_.empty());
        open.work_area = free_areas_.back();
        free_areas_.pop_back();
    }
    void close_work_area(Microbatch microbatch) {
        Open& open = at(microbatch);
        ENSURE(open.work_area.has_value());
        free_areas_.push_back(*open.work_area);
        open.work_area.reset();
    }

    /// Frees the memory of microbatches: of the step only the sums of complete lanes are still
    /// needed. The device must have nothing left to do.
    void drop_memory() {
        memory_.reset();
        gradients_.keep_complete();
    }

  private:
    LayerRange layers_;
    std::unique_ptr<StageMemory> memory_;
    GradientSum gradients_;
    std::map<Microbatch, Open> open_;
    std::vector<std::size_t> free_slots_;  // the longest free first
    std::vector<std::size_t> free_areas_;
    std::vector<std::int32_t> in_flight_;  // by slot
};

}  // namespace rhizome::engine
