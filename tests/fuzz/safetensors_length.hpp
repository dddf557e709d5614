// The length of a safetensors file's header, for mutations of such files.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

namespace rhizome::fuzz {

/// One past the brace that closes the first one; nothing if none does.
inline std::optional<std::size_t> end_of_json(const std::string& text, std::size_t begin) {
    int depth = 0;
    bool quoted = false;
    for (std::size_t i = begin; i < text.size(); ++i) {
        if (quoted && text[i] == '\\') {
            ++i;
        } else if (text[i] == '"') {
            quoted = !quoted;
        } else if (!quoted && text[i] == '{') {
            ++depth;
        } else if (!quoted && text[i] == '}' && --depth <= 0) {
            return i + 1;
        }
    }
    return std::nullopt;
}

/// Makes it end where its JSON does.
inline void mend_header_length(std::string& file) {
    std::uint64_t length = 0;
    if (file.size() <= sizeof length) return;
    auto end = end_of_json(file, sizeof length);
    if (!end) return;
    while (*end < file.size() && file[*end] == ' ') ++*end;
    length = *end - sizeof length;
    std::memcpy(file.data(), &length, sizeof length);
}

}  // namespace rhizome::fuzz
