// How much memory this process may take, as far as the system says.
#pragma once

namespace rhizome::cli {

/// The least of: the machine's memory, the limit of the control group (as batch systems set it),
/// the limit of the address space (ulimit -v).
[[nodiscard]] double memory_limit_bytes();

}  // namespace rhizome::cli
