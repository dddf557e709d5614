// One writer's share of a state: chunks, with a digest of each of their values, in an HDF5 file of
// its own.
//
// A file begins with 512 bytes of text (HDF5 calls them the user block): kind, version, how long
// the file is, where the values begin, and digests of everything before them. So whatever HDF5 has
// to parse is checked before it does, and values are checked as they are read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "state/facts.hpp"
#include "state/file_system.hpp"

namespace rhizome::state {

/// A file of a state that is not what it should be: damaged, cut off, of another kind or version,
/// or of another state. "state file PATH (place: reason), hint"; ExitCode::bad_data.
struct StateError : DataError {
    StateError(const std::string& path, const std::string& place, const std::string& reason,
               const std::string& hint);
    std::string path;
    std::string place;  // "header", "structure", "block.3/attention.weight#7 first_moment", ...
    std::string reason;
    bool is_newer = false;  // not damaged: of a later version of the format
};

/// A chunk's values on the host, in the order of all_values.
struct ChunkValues {
    StoredChunk chunk;
    std::array<std::span<const std::byte>, 3> values;
};

/// What the index has to know of a share.
struct ShareFacts {
    std::int32_t writer;  // from 0, without gaps
    std::int64_t bytes;
    std::string digest;  // of all that is not values; values have their digests in there
    friend bool operator==(const ShareFacts&, const ShareFacts&) = default;
};

/// "share-00003.h5"
[[nodiscard]] std::string share_name(std::int32_t writer);
[[nodiscard]] std::optional<std::int32_t> writer_of_name(std::string_view name);

/// Writes and syncs a share. `chunks` ascending, may be none. Throws FileError.
ShareFacts write_share(FileSystem& files, const std::string& path, const StoredTable& table,
                       std::int32_t steps, std::int32_t writer,
                       std::span<const ChunkValues> chunks);

class ShareReader {
  public:
    /// Checks the header and all structure. Throws StateError, FileError.
    ShareReader(FileSystem& files, const std::string& path, const StoredTable& table);
    ~ShareReader();
    ShareReader(const ShareReader&) = delete;
    ShareReader& operator=(const ShareReader&) = delete;

    [[nodiscard]] const ShareFacts& facts() const;
    [[nodiscard]] std::int32_t steps() const;
    /// Ascending.
    [[nodiscard]] const std::vector<StoredChunk>& chunks() const;
    /// 16 bytes, or nothing if the chunk is not here. Reads no values.
    [[nodiscard]] std::optional<std::array<std::byte, 16>> digest_of(StoredChunk chunk,
                                                                     Value value) const;
    /// Into exactly so many bytes; checked. The chunk must be here. Throws StateError, FileError.
    void read(StoredChunk chunk, Value value, std::span<std::byte> to) const;

  private:
    struct Inside;
    std::unique_ptr<Inside> inside_;
};

}  // namespace rhizome::state
