// MPI is the truth about how many workers there are. A scheduler's variables only show when a
// launch went wrong: eight processes that each believe to be alone would train the same thing eight
// times.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace rhizome::world {

/// The value of an environment variable.
using Variable = std::function<std::optional<std::string>(const std::string& name)>;

/// Whether an MPI launcher started this process.
[[nodiscard]] bool launched_by_mpi(const Variable& variable);

/// To be called when the number of workers is known: what a launcher said that contradicts it, as
/// text for a warning. Throws ConfigError if this process is alone and a launcher meant it not to
/// be.
[[nodiscard]] std::optional<std::string> check_launch(const Variable& variable,
                                                      std::int32_t workers);

}  // namespace rhizome::world
