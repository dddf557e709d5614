#include "cli/ignored_signals.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>

namespace rhizome::cli {
namespace {

constexpr std::array numbers{SIGHUP, SIGINT, SIGTERM};

// NOLINTBEGIN(*-avoid-non-const-global-variables)

/// Written once, before any library is initialized, and constant from then on.
std::array<bool, numbers.size()> ignored;

/// The kernel is asked without the C library, parts of which, and any sanitizer, are not ready yet.
/// In its answer the handler comes first.
[[gnu::no_sanitize("address", "undefined", "thread")]] void look() {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        constexpr std::size_t signal_set_bytes = 8;
        std::uint64_t answer[16] = {};
        const long failed =
            syscall(SYS_rt_sigaction, numbers[i], nullptr, answer, signal_set_bytes);
        ignored[i] = failed == 0 && answer[0] == reinterpret_cast<std::uint64_t>(SIG_IGN);
    }
}

// ELF: what an executable lists here runs before the initializers of the libraries that it loads.
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_all)() = look;

// NOLINTEND(*-avoid-non-const-global-variables)

}  // namespace

bool was_ignored_at_start(int signal) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (numbers[i] == signal) return ignored[i];
    }
    return false;
}

}  // namespace rhizome::cli
