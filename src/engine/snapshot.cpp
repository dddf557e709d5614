#include "engine/snapshot.hpp"

namespace rhizome::engine {

Snapshot::Snapshot(const WorkerState& state, const OwnershipMap& owners, WorkerId self,
                   const state::StoredTable& table) {
    // Chunks have the same order in both, so places are the same.
    const std::vector<state::StoredChunk> stored = table.all_chunks();
    ENSURE(stored.size() == owners.chunks.size());
    std::size_t bytes = 0;
    for (const OwnedState& owned : state.owned()) {
        if (owners.chunks[owned.place].owners.front() != self) continue;
        bytes += 3 * static_cast<std::size_t>(owned.parameter.bytes());
    }
    memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    std::span<std::byte> left{memory_.get(), bytes};
    for (const OwnedState& owned : state.owned()) {
        if (owners.chunks[owned.place].owners.front() != self) continue;
        state::ChunkValues values{.chunk = stored[owned.place], .values = {}};
        std::size_t next = 0;
        for (const device::Tensor& from :
             {owned.parameter, owned.first_moment, owned.second_moment}) {
            const auto size = static_cast<std::size_t>(from.bytes());
            copies_.push_back({from, left.first(size)});
            values.values.at(next++) = left.first(size);
            left = left.subspan(size);
        }
        chunks_.push_back(values);
    }
}

std::int64_t Snapshot::planned_bytes(const LayerTable& table, const OwnershipMap& owners,
                                     WorkerId self) {
    std::int64_t bytes = 0;
    for (const OwnedChunk& each : owners.chunks) {
        if (each.owners.front() != self) continue;
        bytes +=
            3 * table.elements_of(each.chunk) * bytes_of(table.at(each.chunk.tensor).spec.dtype);
    }
    return bytes;
}

void Snapshot::take(device::Stream& stream) {
    for (const Copy& copy : copies_) stream.download(copy.to, copy.from);
}

}  // namespace rhizome::engine
