// What the mains have in common: errors end here, are said once, and become the exit code.
#pragma once

#include <functional>
#include <string_view>

#include "cli/sources.hpp"
#include "core/error.hpp"
#include "core/log.hpp"

namespace rhizome::cli {

using Run = std::function<ExitCode(const Arguments&, const Environment&, const Log&)>;

/// Takes main's arguments; returns its result. Makes standard descriptors and SIGPIPE harmless.
[[nodiscard]] int run_program(int count, const char* const* arguments,
                              const char* const* environment, const Run& run);

/// To standard output, as write_output() does it.
void print(std::string_view text);

}  // namespace rhizome::cli
