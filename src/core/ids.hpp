// Typed indices. Kinds do not mix: a lane is not a microbatch and, after a loss, a rank is not a
// stage; passing one for the other is the bug this file exists to prevent.
#pragma once

#include <compare>
#include <cstdint>
#include <type_traits>

#include "core/error.hpp"

namespace rhizome {

/// Invariant: value() >= 0. "No id" is std::optional, never -1.
template <class Tag>
class Id {
  public:
    constexpr explicit Id(std::int32_t value) : value_{value} { ENSURE(value >= 0); }

    [[nodiscard]] constexpr std::int32_t value() const { return value_; }
    [[nodiscard]] constexpr std::size_t index() const { return static_cast<std::size_t>(value_); }
    friend constexpr auto operator<=>(Id, Id) = default;

  private:
    std::int32_t value_;
};

using LayerId = Id<struct LayerTag>;          // place in the network's list of layers
using Lane = Id<struct LaneTag>;              // group of microbatches whose gradients are one sum
using Microbatch = Id<struct MicrobatchTag>;  // place in the step, over all lanes
using Step = Id<struct StepTag>;              // optimizer steps since the start of training
using WorkerId = Id<struct WorkerTag>;        // one process, for life; never given out twice
using PipelineId = Id<struct PipelineTag>;    // one copy of the network in today's shape
using StageId = Id<struct StageTag>;          // place in a pipeline; void after the next re-cut
using Epoch = Id<struct EpochTag>;            // membership of a run, counted by its changes

static_assert(sizeof(Lane) == sizeof(std::int32_t));  // travels as a plain int32
static_assert(!std::is_convertible_v<Lane, Microbatch>);

}  // namespace rhizome
