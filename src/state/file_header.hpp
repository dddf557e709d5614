// The first 512 bytes of each file of a state, and how a file is read up to its values. The header
// is text, for people and for programs that know no HDF5:
//
//   rhizome state share 1      kind and version of the format
//   writer 3                   shares only
//   steps 500
//   bytes 123456               of the whole file
//   structure 4096             of them before the values, these 512 included
//   digest 0123...             XXH3-128 of bytes 512 to `structure`
//   check 4567...              XXH3-128 of the lines above
//
// Lines end with a newline, newlines fill the rest. There is one way to write a header, and no
// other is read. Since `check` covers all but the values, it stands for the file in the index.
#pragma once

#include "state/share_file.hpp"

namespace rhizome::state {

inline constexpr std::int64_t header_bytes = 512;
inline constexpr std::int64_t structure_bytes_max = std::int64_t{1} << 30;
inline constexpr std::int32_t format_version = 1;

enum class FileKind : std::uint8_t { share, index };

/// "share", "index"
[[nodiscard]] std::string_view name_of(FileKind kind);

struct FileHeader {
    FileKind kind = FileKind::share;
    std::int32_t writer = 0;  // of a share
    std::int32_t steps = 0;
    std::int64_t bytes = 0;
    std::int64_t structure = 0;
    std::string digest{};
    friend bool operator==(const FileHeader&, const FileHeader&) = default;
};

[[nodiscard]] std::string check_of(const FileHeader& header);
/// 512 bytes.
[[nodiscard]] std::string text_of(const FileHeader& header);
/// Of a file of that kind and of this version. `path` is for the StateError.
[[nodiscard]] FileHeader parse_header(std::string_view text, FileKind kind,
                                      const std::string& path);

/// A file with all of it before the values, checked: header, length of the file, digest.
struct FileStart {
    std::unique_ptr<File> file;
    FileHeader header;
    std::string check;
    std::vector<std::byte> bytes;  // `structure` of them
};

/// Throws StateError, FileError.
[[nodiscard]] FileStart read_start(FileSystem& files, const std::string& path, FileKind kind);

/// For StateError.
inline constexpr const char* damaged_hint = "use another state or another copy of this one";

}  // namespace rhizome::state
