// What a run has trained, as one short text: equal texts, equal bits. A digest per chunk tells
// where two runs differ.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/worker.hpp"

namespace rhizome::engine {

/// Of a chunk's parameters and both moments.
struct ChunkDigest {
    std::string name;  // "block.3/attention.weight#0"
    std::string hex;
    friend bool operator==(const ChunkDigest&, const ChunkDigest&) = default;
};

[[nodiscard]] std::string chunk_name(const LayerTable& table, ChunkRef chunk);
/// Reads them back from the device, which must have nothing left to do.
[[nodiscard]] std::string digest_of_chunk(device::Stream& stream, const device::Tensor& parameter,
                                          const device::Tensor& first_moment,
                                          const device::Tensor& second_moment);
/// One for all.
[[nodiscard]] std::string digest_of(std::span<const ChunkDigest> chunks);

struct DigestEnd {
    CommStatus status;
    std::vector<ChunkDigest> chunks;  // all of them, on the first member; elsewhere none
};

/// All workers must ask, between steps. A chunk's first owner speaks for it.
[[nodiscard]] DigestEnd gather_digests(Worker& worker, const LayerTable& table);

}  // namespace rhizome::engine
