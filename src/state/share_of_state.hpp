// A share as part of a state: is it the one that the index means?
//
// Private to this room.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "state/index_file.hpp"

namespace rhizome::state {

/// Why a share is not the one of the index, if it is not.
[[nodiscard]] std::optional<std::string> why_foreign(const ShareReader& share,
                                                     const StateIndex& index, std::int32_t writer);

/// Whether a state's folder has the name of another state; other names are nobody's business.
[[nodiscard]] std::optional<std::string> why_misnamed(const std::string& path, std::int32_t steps);

/// Opened from a state's folder. Throws StateError if it is missing, damaged or not the index's.
[[nodiscard]] std::unique_ptr<ShareReader> open_share(FileSystem& files, const std::string& folder,
                                                      const StateIndex& index, std::int32_t writer);

}  // namespace rhizome::state
