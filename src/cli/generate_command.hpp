// `rhizome generate`: text from a trained GPT, written token by token.
#pragma once

#include "cli/generate_options.hpp"
#include "core/error.hpp"
#include "core/log.hpp"

namespace rhizome::cli {

/// Writes to the descriptor `output`, and ends quietly when its reader is gone. Throws UserError.
[[nodiscard]] ExitCode generate_command(const GenerateOptions& options, const Log& log, int output);

}  // namespace rhizome::cli
