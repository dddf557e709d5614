// How much memory this process may take, and has taken, as far as the system says.
#pragma once

#include <string>

namespace rhizome::cli {

/// The least of: the machine's memory, the limit of the control group (as batch systems set it),
/// the limit of the address space (ulimit -v).
[[nodiscard]] double memory_limit_bytes();

/// Throws ConfigError, as "WHO NEEDS 3GB of memory (this process may have 2GB), HINT", if so many
/// bytes are more than that.
void expect_memory(double bytes, const std::string& who_needs, const std::string& hint);

/// The most that it had at a time so far, in bytes of memory that it had touched; 0 where the
/// system does not say.
[[nodiscard]] double memory_peak_bytes();

}  // namespace rhizome::cli
