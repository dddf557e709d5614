// Who keeps which piece of the parameters and of the optimizer's state. Every owner of a chunk
// receives its gradient, runs the optimizer on it (with the same bits as the other owners) and can
// give its parameters to the holders, who compute with them.
#pragma once

#include <algorithm>
#include <vector>

#include "core/ids.hpp"
#include "core/layer_table.hpp"

namespace rhizome {

struct OwnedChunk {
    ChunkRef chunk;
    /// Distinct, at least one. The first is the one that sends new parameters to holders that do
    /// not own the chunk themselves.
    std::vector<WorkerId> owners;
    [[nodiscard]] bool is_owned_by(WorkerId worker) const {
        return std::find(owners.begin(), owners.end(), worker) != owners.end();
    }
    friend bool operator==(const OwnedChunk&, const OwnedChunk&) = default;
};

/// All owned chunks of a table, in the order of their identity; tied tensors where they are owned.
struct OwnershipMap {
    std::vector<OwnedChunk> chunks;
    friend bool operator==(const OwnershipMap&, const OwnershipMap&) = default;
};

}  // namespace rhizome
