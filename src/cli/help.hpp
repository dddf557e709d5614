// What the program says about itself. Made of the table of keys, so that it cannot be out of date.
#pragma once

#include <string>

namespace rhizome::cli {

// Each ends with a line break and has at most 100 columns.
[[nodiscard]] std::string help_text();
[[nodiscard]] std::string train_help_text();
[[nodiscard]] std::string run_help_text();
[[nodiscard]] std::string stop_help_text();
[[nodiscard]] std::string save_help_text();
[[nodiscard]] std::string version_text();

}  // namespace rhizome::cli
