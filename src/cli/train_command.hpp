// `rhizome train`: builds what a run is made of, from the data upwards, and runs it.
#pragma once

#include "cli/run_config.hpp"
#include "core/clock.hpp"
#include "core/log.hpp"

namespace rhizome::cli {

/// Trains as configured; results go to `output`, a file descriptor, warnings to `log`. Throws
/// UserError. Everything that can be wrong with the input is found before the first step.
void train_command(const RunConfig& config, const Clock& clock, const Log& log, int output);

}  // namespace rhizome::cli
