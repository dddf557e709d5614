// How a run goes on after losses: what its repairs go by, and the words for people about them.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/preparation.hpp"
#include "engine/repair.hpp"

namespace rhizome::cli {

/// Without what is asked of the run's folder. `prepared` must outlive it.
[[nodiscard]] engine::RepairConfig repair_config(const RunConfig& config,
                                                 const Preparation& prepared);

/// "workers 3 and 5", in order.
[[nodiscard]] std::string workers_text(const std::vector<WorkerId>& workers);

/// "24 ms", "2.4 s"
[[nodiscard]] std::string time_text(Nanoseconds time);

/// "worker 3 was lost, rung 3 re-plan (...): on in 24 ms, ...".
[[nodiscard]] std::string to_text(const engine::RepairRecord& record);

/// What all repairs of a run come to.
class RepairAccount {
  public:
    void add(const engine::RepairRecord& record);

    /// Rows of the final table, none in a calm run; `seconds` is how long the run took.
    [[nodiscard]] std::vector<std::pair<std::string, std::string>> rows(double seconds) const;

  private:
    std::map<recover::Rung, std::int32_t> lost_;  // workers
    double repair_s_ = 0;
    double again_s_ = 0;
    std::int64_t bytes_ = 0;
};

}  // namespace rhizome::cli
