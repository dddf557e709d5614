// Files in the safetensors format (github.com/huggingface/safetensors), in which most published
// models are exchanged:
//
//   8 bytes    length of the header, little-endian
//   header     JSON: {"__metadata__": {text: text}, "NAME": {"dtype": "F32", "shape": [2, 3],
//              "data_offsets": [0, 24]}, ...}, padded with blanks
//   data       the tensors, row-major, little-endian, without gaps
//
// A file is checked as a whole before anything in it is believed, and more strictly than the format
// demands where a file could mean two things. Values themselves carry no checksum.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/shape.hpp"
#include "state/file_system.hpp"

namespace rhizome::state {

/// "safetensors file PATH (reason), hint"; ExitCode::bad_data.
struct SafetensorsError : DataError {
    SafetensorsError(const std::string& path_of_file, const std::string& why,
                     const std::string& hint);
    std::string path;
    std::string reason;
};

/// As the reference implementation has it.
inline constexpr std::int64_t safetensors_header_bytes_max = 100'000'000;
/// The reference implementation has no limit; nobody has more.
inline constexpr std::size_t safetensors_dimensions_max = 64;

struct SafetensorsTensor {
    std::string name;
    std::string dtype;                // as the format calls it: "F32", "BF16"
    std::vector<std::int64_t> shape;  // extents may be 0
    std::int64_t offset;              // of its first byte, in the file
    std::int64_t bytes;
    friend bool operator==(const SafetensorsTensor&, const SafetensorsTensor&) = default;
};

/// "(3, 4)"
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);

class SafetensorsReader {
  public:
    /// Checks all that can be wrong but the values. Throws SafetensorsError, FileError.
    SafetensorsReader(FileSystem& files, const std::string& path);

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }
    /// In the order of their data.
    [[nodiscard]] const std::vector<SafetensorsTensor>& tensors() const { return tensors_; }
    /// Null if there is none of that name.
    [[nodiscard]] const SafetensorsTensor* find(std::string_view name) const;

    /// f32 or f64. SafetensorsError for the format's other types, which are not read here.
    [[nodiscard]] DType dtype_of(const SafetensorsTensor& tensor) const;
    /// Elements from `first_element` on, as many as `to` has room for. They must exist, and the
    /// tensor be one of this file's. Throws SafetensorsError as dtype_of does, FileError.
    void read(const SafetensorsTensor& tensor, std::int64_t first_element,
              std::span<std::byte> to) const;
    /// All of them.
    void read(const SafetensorsTensor& tensor, std::span<std::byte> to) const;

  private:
    std::string path_;
    std::unique_ptr<File> file_;
    std::map<std::string, std::string> metadata_;
    std::vector<SafetensorsTensor> tensors_;
    std::map<std::string, std::size_t, std::less<>> place_of_;  // in tensors_, by name
};

enum class Existing : std::uint8_t { keep, replace };  // a file that has the name already

/// A tensor of a file that is to be written. Its dtype is f32 or f64.
struct SafetensorsSpec {
    std::string name;
    std::vector<std::int64_t> shape;
    DType dtype;
};

/// Writes a file under PATH.part and gives it its name when it is whole.
class SafetensorsWriter {
  public:
    /// The data lie in the order of `tensors`, whose names differ. Metadata that are no UTF-8 have
    /// U+FFFD in the place of what is not. Throws FileError, also where the name is taken and to be
    /// kept, or is no file's.
    SafetensorsWriter(FileSystem& files, const std::string& path,
                      std::span<const SafetensorsSpec> tensors,
                      const std::map<std::string, std::string>& metadata, Existing existing);
    /// Removes what was not committed.
    ~SafetensorsWriter();
    SafetensorsWriter(const SafetensorsWriter&) = delete;
    SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

    /// All elements of tensor number `tensor`; each tensor once, in any order. Throws FileError.
    void write(std::size_t tensor, std::span<const std::byte> values);
    /// Syncs and renames. Every tensor must have been written. A file that is replaced is whole
    /// under its name or under PATH.old until the new one is there. Throws FileError.
    void commit();

  private:
    void take_name();

    FileSystem& files_;
    std::string path_;
    std::string part_;
    Existing existing_;
    std::unique_ptr<File> file_;  // null once committed
    std::vector<SafetensorsTensor> tensors_;
    std::vector<bool> written_;
};

}  // namespace rhizome::state
