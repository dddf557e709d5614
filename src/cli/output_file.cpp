#include "cli/output_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

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

}  // namespace rhizome::cli
