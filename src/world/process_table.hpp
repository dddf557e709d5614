// What the kernel says about the processes of this host. A number alone names nobody for long,
// since numbers are given out again; together with the time at which it started, it does.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rhizome::world {

struct Process {
    pid_t pid;
    pid_t parent;
    std::uint64_t started;  // clock ticks since the host booted
    friend bool operator==(const Process&, const Process&) = default;
};

/// Nothing if there is none, or if it is dead and only waits for its parent to notice.
[[nodiscard]] std::optional<Process> find_process(pid_t pid);

/// SIGKILL, if the number still names the process that started then.
void kill_process(pid_t pid, std::uint64_t started);

/// Of this process: its children, theirs, and so on.
[[nodiscard]] std::vector<Process> find_descendants();

/// The name by which this host is known.
[[nodiscard]] std::string host_name();

}  // namespace rhizome::world
