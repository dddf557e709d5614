// Who has to send what to whom at the end of a step, read off the ownership map. Private to this
// room.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "core/layer_table.hpp"
#include "core/ownership_map.hpp"
#include "core/run_shape.hpp"

namespace rhizome::schedule {

class Exchange {
  public:
    Exchange(const RunShape& shape, const LayerTable& table, const OwnershipMap& owners);

    /// Owners of chunks that these layers use and how many elements each owns of them, tied tensors
    /// once per use; ascending.
    [[nodiscard]] std::map<WorkerId, std::int64_t> owners_of(LayerRange layers) const;

    /// Workers with parts of norm (first owners) or loss (last stages); ascending.
    [[nodiscard]] std::vector<WorkerId> part_senders() const;
    [[nodiscard]] bool owns_any(WorkerId worker) const { return elements_owned_.contains(worker); }
    [[nodiscard]] std::int64_t elements_owned(WorkerId worker) const;

    /// (first owner, holder that owns it not) -> elements to send; ascending.
    [[nodiscard]] const std::map<std::pair<WorkerId, WorkerId>, std::int64_t>& parameters() const {
        return parameters_;
    }

  private:
    const RunShape& shape_;
    const LayerTable& table_;
    const OwnershipMap& owners_;
    std::map<TensorRef, std::pair<std::size_t, std::size_t>>
        chunks_of_;  // [first, last) in owners_
    std::map<WorkerId, std::int64_t> elements_owned_;
    std::map<std::pair<WorkerId, WorkerId>, std::int64_t> parameters_;
};

}  // namespace rhizome::schedule
