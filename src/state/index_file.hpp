// A state's index: what the state says about itself, which shares belong to it and what is in them.
// It is written last. With the digests of all shares' structure in it, and those of the values in
// there, it names one content and no other.
//
// For people with h5py or h5dump it has every tensor in one piece as well (virtual datasets, which
// HDF5 puts together from the shares); nothing here reads those.
#pragma once

#include "state/share_file.hpp"

namespace rhizome::state {

inline constexpr std::string_view index_name = "index.h5";

struct StateIndex {
    StateFacts facts;
    StoredTable table;
    std::vector<ShareFacts> shares;  // by writer
    /// Of each chunk, in the order of StoredTable::all_chunks(), who wrote it.
    std::vector<std::int32_t> writer_of;
    friend bool operator==(const StateIndex&, const StateIndex&) = default;
};

/// Writes and syncs it. Throws FileError.
void write_index(FileSystem& files, const std::string& path, const StateIndex& index);

struct IndexFile {
    StateIndex index;
    std::string digest;  // of its structure: equal for two states only if all in them is equal
};

/// Checked. Throws StateError, FileError.
[[nodiscard]] IndexFile read_index(FileSystem& files, const std::string& path);

}  // namespace rhizome::state
