// What a command writes where the user wants it: files, and its answer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rhizome::cli {

/// Whole or not there: written aside under a name that nobody has, then moved. Takes the place of
/// ordinary files only. Throws ConfigError, which names the flag.
void write_file(const std::string& flag, const std::string& path, const std::string& content);

enum class [[nodiscard]] Reader : std::uint8_t { there, gone };
/// All of it, for whoever reads there; a reader that has gone wants no more. Throws ConfigError.
Reader write_output(int descriptor, std::string_view text);

}  // namespace rhizome::cli
