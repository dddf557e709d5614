// A state's values by the places that a network gives its chunks.
#pragma once

#include "engine/worker_state.hpp"
#include "state/state_folder.hpp"

namespace rhizome::engine {

class StoredValues final : public ValueSource {
  public:
    /// The state must have this network's table. Both must outlive it.
    StoredValues(state::StateReader& reader, const LayerTable& table)
        : reader_{reader}, owned_{table.owned()} {}

    /// Throws StateError, FileError.
    void read(ChunkRef chunk, state::Value value, std::span<std::byte> to) override {
        const auto found = std::lower_bound(owned_.begin(), owned_.end(), chunk.tensor);
        ENSURE(found != owned_.end() && *found == chunk.tensor);
        reader_.read({static_cast<std::int32_t>(found - owned_.begin()), chunk.chunk}, value, to);
    }

  private:
    state::StateReader& reader_;
    std::vector<TensorRef> owned_;  // ascending; the place of each is the one in the state's table
};

}  // namespace rhizome::engine
