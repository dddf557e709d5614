#include "cli/output_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "cli/values.hpp"
#include "core/error.hpp"

namespace rhizome::cli {

void write_file(const std::string& flag, const std::string& path, const std::string& content) {
    namespace fs = std::filesystem;
    const auto refuse = [&](const std::string& reason) {
        throw ConfigError{flag + "=" + shown(path) + " (" + reason + "), name another place"};
    };
    std::error_code error;
    const fs::file_status status = fs::symlink_status(path, error);
    if (fs::exists(status) && !fs::is_regular_file(status)) refuse("is no ordinary file");
    std::string aside = path + ".XXXXXX";
    const int descriptor = mkstemp(aside.data());
    if (descriptor < 0) refuse("cannot be written");
    const bool written = ::write(descriptor, content.data(), content.size()) ==
                             static_cast<ssize_t>(content.size()) &&
                         fchmod(descriptor, 0644) == 0;
    const bool closed = close(descriptor) == 0;
    if (written && closed) fs::rename(aside, path, error);
    if (!written || !closed || error) {
        fs::remove(aside, error);
        refuse("cannot be written whole");
    }
}

Reader write_output(int descriptor, std::string_view text) {
    while (!text.empty()) {
        const ssize_t count = ::write(descriptor, text.data(), text.size());
        if (count >= 0) {
            text.remove_prefix(static_cast<std::size_t>(count));
        } else if (errno == EPIPE) {
            return Reader::gone;
        } else if (errno != EINTR) {
            throw ConfigError{
                "the output (cannot be written: " + std::generic_category().message(errno) +
                "), make room, or let it go elsewhere"};
        }
    }
    return Reader::there;
}

}  // namespace rhizome::cli
