#include "world/run_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "core/text.hpp"

namespace rhizome::world {
namespace {

constexpr std::size_t bytes_max = 1 << 16;  // of a file that is read

}  // namespace

std::error_code last_error() { return {errno, std::generic_category()}; }

ConfigError unusable(const std::string& path, const std::string& reason, const std::string& hint) {
    return ConfigError{"run folder " + visible(path) + " (" + reason + "), " + hint};
}

ConfigError unwritable(const std::string& path, const std::error_code& problem) {
    return unusable(path, "cannot be written: " + problem.message(),
                    "name one in a place where files can be written");
}

std::error_code write_file(const std::string& path, std::string_view text) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0) return last_error();
    std::error_code problem;
    while (!text.empty() && !problem) {
        const auto count = ::write(file, text.data(), text.size());
        if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
        if (count < 0 && errno != EINTR) problem = last_error();
    }
    if (!problem && ::fsync(file) != 0) problem = last_error();
    if (::close(file) != 0 && !problem) problem = last_error();
    return problem;
}

std::optional<std::string> read_file(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return std::nullopt;
    std::string text(bytes_max, '\0');
    std::size_t size = 0;
    ssize_t count = 0;
    do {
        count = ::read(file, text.data() + size, bytes_max - size);
        if (count > 0) size += static_cast<std::size_t>(count);
    } while (count > 0 || (count < 0 && errno == EINTR));
    ::close(file);  // opened for reading: nothing can be lost
    if (count < 0 || size == bytes_max) return std::nullopt;
    text.resize(size);
    return text;
}

}  // namespace rhizome::world
