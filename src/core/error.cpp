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

}  // namespace rhizome
