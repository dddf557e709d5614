// Which signals this program was told to ignore by whoever started it: nohup, or a shell that put
// it in the background. main comes too late to ask, since libraries of MPI (UCX, for SIGHUP) put
// handlers of their own in place when they are loaded.
#pragma once

namespace rhizome::cli {

/// Of SIGHUP, SIGINT and SIGTERM; false for all others.
[[nodiscard]] bool was_ignored_at_start(int signal);

}  // namespace rhizome::cli
