#include "core/log.hpp"

#include <unistd.h>

#include <cerrno>

namespace rhizome {

Log log_to(int descriptor) {
    return Log{
        [descriptor](std::string_view line) { write_all(descriptor, std::string{line} + "\n"); }};
}

void write_all(int descriptor, std::string_view text) {
    while (!text.empty()) {
        const auto count = ::write(descriptor, text.data(), text.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return;
        text.remove_prefix(static_cast<std::size_t>(count));
    }
}

}  // namespace rhizome
