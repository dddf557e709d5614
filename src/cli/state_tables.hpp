// What `rhizome-state` found out, for people: at most some lines of words and a table.
#pragma once

#include <string>

#include "cli/state_reports.hpp"

namespace rhizome::cli {

// Each ends with a line break. Control characters are made visible.
[[nodiscard]] std::string to_table(const ListReport& report);
[[nodiscard]] std::string to_table(const ShowReport& report);
[[nodiscard]] std::string to_table(const TensorReport& report);
[[nodiscard]] std::string to_table(const VerifyReport& report);
[[nodiscard]] std::string to_table(const DiffReport& report);
[[nodiscard]] std::string to_table(const HistoryReport& report);
[[nodiscard]] std::string to_table(const PruneReport& report);
[[nodiscard]] std::string to_table(const WrittenReport& report);

/// "f32"
[[nodiscard]] std::string dtype_text(DType dtype);

}  // namespace rhizome::cli
