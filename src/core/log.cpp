#include "core/log.hpp"

#include <unistd.h>

#include <cerrno>

namespace rhizome {

Log log_to(int descriptor) {
    return Log{[descriptor](std::string_view line) {
        std::string text{line};
        text += '\n';
        std::size_t written = 0;
        while (written < text.size()) {
            const auto count = ::write(descriptor, text.data() + written, text.size() - written);
            if (count < 0 && errno == EINTR) continue;
            if (count <= 0) return;  // nobody reads: training matters more than its log
            written += static_cast<std::size_t>(count);
        }
    }};
}

}  // namespace rhizome
