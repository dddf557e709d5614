// A folder of its own for each test, gone afterwards, and files for it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>  // mkdtemp is POSIX, not C++

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace rhizome::data {

class TempFolder {
  public:
    TempFolder() : path_{::testing::TempDir() + "rhizome_data_XXXXXX"} {
        ENSURE(::mkdtemp(path_.data()) != nullptr);
    }
    ~TempFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] std::string path(std::string_view name) const {
        return path_ + "/" + std::string{name};
    }

    /// Returns the new file's path.
    [[nodiscard]] std::string write(std::string_view name, std::string_view content) const {
        std::ofstream{path(name), std::ios::binary} << content;
        return path(name);
    }

  private:
    std::string path_;
};

template <class T>
std::string raw(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
}

struct TokenHeader {
    std::int32_t magic = 20240520;
    std::int32_t version = 1;
    std::int32_t tokens = 0;
};

/// A token file whose header may disagree with its tokens.
inline std::string token_file(TokenHeader header, const std::vector<std::uint16_t>& tokens) {
    std::string content = raw(header.magic) + raw(header.version) + raw(header.tokens);
    content.resize(1024, '\0');
    for (const std::uint16_t token : tokens) content += raw(token);
    return content;
}

inline std::string token_file(const std::vector<std::uint16_t>& tokens) {
    return token_file({.tokens = static_cast<std::int32_t>(tokens.size())}, tokens);
}

/// first, first + 1, ...
inline std::vector<std::uint16_t> counting(std::uint16_t first, std::size_t count) {
    std::vector<std::uint16_t> tokens;
    for (std::size_t i = 0; i < count; ++i) tokens.push_back(static_cast<std::uint16_t>(first + i));
    return tokens;
}

}  // namespace rhizome::data
