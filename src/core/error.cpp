#include "core/error.hpp"

#include <unistd.h>

#include <cstdio>

namespace rhizome {

void fail_ensure(const char* condition, const char* file, int line) {
    std::fprintf(stderr, "rhizome: broken promise in our own code: %s (%s:%d), please report it\n",
                 condition, file, line);
    std::fflush(stderr);
    _exit(static_cast<int>(ExitCode::our_fault));
}

std::string_view name_of(CommStatus status) {
    switch (status) {
        case CommStatus::ok:
            return "ok";
        case CommStatus::peer_lost:
            return "peer_lost";
        case CommStatus::revoked:
            return "revoked";
        case CommStatus::timed_out:
            return "timed_out";
    }
    ENSURE(false);
}

}  // namespace rhizome
