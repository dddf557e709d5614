// A copy, on the host, of what a worker writes into a state: parameters and moments of the chunks
// whose first owner it is, all from one step. The training goes on while it is written.
#pragma once

#include <memory>
#include <vector>

#include "engine/worker_state.hpp"
#include "state/share_file.hpp"

namespace rhizome::engine {

class Snapshot {
  public:
    /// `state` must outlive it.
    Snapshot(const WorkerState& state, const OwnershipMap& owners, WorkerId self,
             const state::StoredTable& table);

    /// Host memory that it takes.
    [[nodiscard]] static std::int64_t planned_bytes(const LayerTable& table,
                                                    const OwnershipMap& owners, WorkerId self);

    /// Queues the copies; they are there once the stream has come to this point.
    void take(device::Stream& stream);

    /// In the order of their identity.
    [[nodiscard]] const std::vector<state::ChunkValues>& chunks() const { return chunks_; }

  private:
    struct Copy {
        device::Tensor from;
        std::span<std::byte> to;
    };

    std::unique_ptr<std::byte[]> memory_;
    std::vector<Copy> copies_;
    std::vector<state::ChunkValues> chunks_;
};

}  // namespace rhizome::engine
