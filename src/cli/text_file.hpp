// Whole text files that a flag or a key names.
#pragma once

#include <string>

namespace rhizome::cli {

/// Its content. Throws ConfigError, as "WHERE (cannot be read, ...), HINT", also for what is no
/// ordinary file or has more than 256 MiB.
[[nodiscard]] std::string read_text_file(const std::string& where, const std::string& path,
                                         const std::string& hint);

}  // namespace rhizome::cli
