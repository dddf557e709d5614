// `rhizome-state` from its options to its answer.
#pragma once

#include <memory>
#include <string>

#include "cli/options.hpp"
#include "cli/state_options.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "state/file_system.hpp"

namespace rhizome::cli {

struct StateAnswer {
    std::string text{};
    ExitCode code = ExitCode::done;
};

/// Throws UserError.
[[nodiscard]] StateAnswer state_command(const StateOptions& options,
                                        const std::shared_ptr<state::FileSystem>& files,
                                        const Environment& environment, const Log& log);

}  // namespace rhizome::cli
