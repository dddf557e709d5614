// Files that a command writes where the user wants them.
#pragma once

#include <string>

namespace rhizome::cli {

/// Whole or not there: written aside under a name that nobody has, then moved. Takes the place of
/// ordinary files only. Throws ConfigError, which names the flag.
void write_file(const std::string& flag, const std::string& path, const std::string& content);

}  // namespace rhizome::cli
