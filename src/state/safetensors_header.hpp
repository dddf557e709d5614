// The header of a safetensors file: JSON that says what the bytes behind it are. Private to this
// room.
//
// A header comes from anywhere, so it is read as a stream of JSON events against the one form that
// is allowed: no tree is built, nothing nests deeper than the form does, and what is kept is never
// much larger than the header itself.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "state/safetensors.hpp"

namespace rhizome::state {

/// A name or value out of a file, fit for a message: short, and without control characters.
[[nodiscard]] std::string shown(std::string_view text);

struct SafetensorsHeader {
    std::map<std::string, std::string> metadata;
    std::vector<SafetensorsTensor> tensors;  // by offset; these count from the header's end
};

/// Checks everything that can be checked without the data, of which there are `data_bytes`. Throws
/// SafetensorsError; `path` is for its message.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(const std::string& path,
                                                         std::string_view json,
                                                         std::int64_t data_bytes);

/// With blanks at its end, so that the data behind it begin at a multiple of 8.
[[nodiscard]] std::string safetensors_header_text(
    const std::map<std::string, std::string>& metadata, std::span<const SafetensorsTensor> tensors);

}  // namespace rhizome::state
