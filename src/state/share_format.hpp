// What writing and reading of files must agree on, and what both kinds of files share.
//
// Private to this room.
#pragma once

#include "state/file_header.hpp"
#include "state/hdf5_file.hpp"

namespace rhizome::state {

/// Root attribute `format`.
inline constexpr std::string_view share_format = "rhizome state share";
inline constexpr std::string_view index_format = "rhizome state index";
inline constexpr std::size_t digest_bytes = 16;

/// Writes structure and header, the header last, and syncs. Returns its check.
std::string write_start(File& file, FileHeader header, const Image& image);

/// Root attributes `format` and `version`. Throws Hdf5Error.
void check_format(hid_t root, std::string_view format);

/// A failed save is the disk's fault for whoever saves, also where memory was too small.
template <class Build>
Image image_or_file_error(const std::string& path, Build build) {
    try {
        Image image = build();
        if (static_cast<std::int64_t>(image.bytes.size()) > structure_bytes_max) {
            throw Hdf5Error{"its tables are too large"};
        }
        return image;
    } catch (const Hdf5Error& error) {
        throw FileError{path, error.what()};
    }
}

}  // namespace rhizome::state
