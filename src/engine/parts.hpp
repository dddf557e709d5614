// The parts of loss and norm: numbers by microbatch and by chunk that every worker adds up in one
// order, so that all have the same bits. A worker sends those that it makes to all others.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "core/ownership_map.hpp"
#include "core/run_shape.hpp"
#include "device/tensor.hpp"

namespace rhizome::engine {

class Parts {
  public:
    /// `owners` is null where there is no norm, as in an evaluation.
    Parts(const RunShape& shape, const OwnershipMap* owners, WorkerId self);

    /// Microbatches whose loss is made here: [first, last), maybe none.
    [[nodiscard]] std::int32_t first_microbatch() const { return mine_.first; }
    [[nodiscard]] std::int32_t last_microbatch() const { return mine_.last; }
    /// Places in the ownership map of the chunks whose part of the norm is made here, ascending.
    [[nodiscard]] const std::vector<std::size_t>& chunks() const { return mine_.chunks; }

    /// Takes what was made here, in the order of the two lists above.
    void set_mine(std::span<const double> losses, std::span<const double> squares);
    /// To be sent, after set_mine.
    [[nodiscard]] device::Tensor outgoing();
    /// Where those of a sender are received, and taking them from there.
    [[nodiscard]] device::Tensor incoming(WorkerId sender);
    void take(WorkerId sender);

    /// Sums in the order of microbatches, of chunks. All parts must be there.
    [[nodiscard]] double loss() const;
    [[nodiscard]] double squares() const;

  private:
    struct Share {
        std::int32_t first = 0;  // microbatches
        std::int32_t last = 0;
        std::vector<std::size_t> chunks{};
        std::vector<double> numbers{};  // as they travel
    };

    [[nodiscard]] static Share share_of(const RunShape& shape, const OwnershipMap* owners,
                                        WorkerId worker);
    void spread(const Share& share);

    Share mine_;
    std::map<WorkerId, Share> others_;
    std::vector<double> losses_;   // by microbatch
    std::vector<double> squares_;  // by place in the ownership map
};

}  // namespace rhizome::engine
