// What `rhizome-state` found out, for machines: one JSON document each; the help of each verb says
// what is in it. Numbers that are not finite are null, and bytes that are no UTF-8 are U+FFFD.
#pragma once

#include <string>

#include "cli/state_reports.hpp"

namespace rhizome::cli {

[[nodiscard]] std::string to_json(const ListReport& report);
[[nodiscard]] std::string to_json(const ShowReport& report);
[[nodiscard]] std::string to_json(const TensorReport& report);
[[nodiscard]] std::string to_json(const VerifyReport& report);
[[nodiscard]] std::string to_json(const DiffReport& report);
[[nodiscard]] std::string to_json(const HistoryReport& report);
[[nodiscard]] std::string to_json(const PruneReport& report);
[[nodiscard]] std::string to_json(const WrittenReport& report);

}  // namespace rhizome::cli
