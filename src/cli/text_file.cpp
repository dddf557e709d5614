#include "cli/text_file.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/error.hpp"

namespace rhizome::cli {

std::string read_text_file(const std::string& where, const std::string& path,
                           const std::string& hint) {
    constexpr std::uintmax_t bytes_max = std::uintmax_t{256} << 20;
    std::error_code error;
    const bool ordinary = std::filesystem::is_regular_file(path, error);
    std::ifstream file{path, std::ios::binary};
    if (!ordinary || !file || std::filesystem::file_size(path, error) > bytes_max) {
        throw ConfigError{where + " (cannot be read, or is no ordinary file of at most 256 MiB), " +
                          hint};
    }
    std::ostringstream content;
    content << file.rdbuf();
    return content.str();
}

}  // namespace rhizome::cli
