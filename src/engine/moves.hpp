// Values of chunks on their way to those who will need them. What is sent is read from the worker's
// present assignment and what is received lies beside it, so nothing that anybody has is touched
// before all have what they need.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "engine/worker.hpp"
#include "recover/decide.hpp"

namespace rhizome::engine {

class MoveExchange {
  public:
    /// Begins all moves of this worker, one message to and from each peer. `owners` gives the
    /// places of chunks their meaning.
    MoveExchange(Worker& worker, const std::vector<recover::Move>& moves,
                 const OwnershipMap& owners);

    /// Until everything has arrived and left. If it does not, the worker must abandon the epoch
    /// before this object ends.
    [[nodiscard]] CommStatus wait();

    /// Gives an assignment its values: what was here, and what has arrived.
    void fill(Assignment& next);

  private:
    Worker& worker_;
    std::map<WorkerId, std::vector<std::byte>> outgoing_;
    std::map<WorkerId, std::vector<std::byte>> incoming_;
    std::vector<Messenger::Receipt> receipts_;
    /// Where values that have arrived lie, by chunk and value.
    std::map<std::pair<ChunkRef, state::Value>, std::span<const std::byte>> arrived_;
};

}  // namespace rhizome::engine
