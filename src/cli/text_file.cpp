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
    std::ostringstream content;
    // Asked before it is opened, which could wait for ever.
    bool well = std::filesystem::is_regular_file(path, error) &&
                std::filesystem::file_size(path, error) <= bytes_max;
    if (well) {
        std::ifstream file{path, std::ios::binary};
        well = file.good();
        if (well && file.peek() != std::ifstream::traits_type::eof()) content << file.rdbuf();
        well = well && !file.bad() && !content.bad();
    }
    if (!well) {
        throw ConfigError{where + " (cannot be read, or is no ordinary file of at most 256 MiB), " +
                          hint};
    }
    return content.str();
}

}  // namespace rhizome::cli
