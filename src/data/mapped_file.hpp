// A whole file as read-only memory. The kernel brings in the pages that are read and may drop them
// again, so a data set larger than memory costs no copy and no reading ahead of need.
//
// The file must keep its length while it is mapped: reading a page that was cut off ends the
// process (SIGBUS). Data files of a run are therefore replaced under a new name, never rewritten.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace rhizome::data {

/// Owns one mapping. The descriptor is closed before the constructor returns, whichever way.
/// Invariant: bytes() is empty only after the object was moved from.
class MappedFile {
  public:
    /// Throws DataError if the file is missing, not readable, empty, or no regular file.
    explicit MappedFile(const std::string& path);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;

    [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

  private:
    std::span<std::byte> bytes_;  // writable by type only, as munmap wants it
};

}  // namespace rhizome::data
