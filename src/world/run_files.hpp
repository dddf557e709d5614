// The small files of a run's folder, and what is said of a folder that cannot be used.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "core/error.hpp"

namespace rhizome::world {

/// Of those who run, each with a record.
inline constexpr std::string_view processes_name = "processes";

/// Of epochs that were opened after a loss.
inline constexpr std::string_view epochs_name = "epochs";

/// errno
[[nodiscard]] std::error_code last_error();

/// Complete and on the disk, or a problem and whatever was left of it.
[[nodiscard]] std::error_code write_file(const std::string& path, std::string_view text);
/// Nothing if it cannot be read or is no page of text.
[[nodiscard]] std::optional<std::string> read_file(const std::string& path);

[[nodiscard]] ConfigError unusable(const std::string& path, const std::string& reason,
                                   const std::string& hint);
[[nodiscard]] ConfigError unwritable(const std::string& path, const std::error_code& problem);

}  // namespace rhizome::world
