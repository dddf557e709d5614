// Faults that are meant to happen, for tests and for whoever wants to see a run survive: which
// worker, when, where and how; or at random, from a seed.
//
//   kill@2/12/F#3          worker 2 is killed in step 12, before its fourth forward
//   stop@0/*/move          worker 0 stops in the moves of its first repair
//   exit@1/5/evaluation:F  worker 1 leaves by exit(0) at the beginning of an evaluation after
//                          5 steps
//   soak@7/0.001           every worker is killed at every place with this chance, but not one
//                          that knows to be the last
//
// Several are separated by commas. A place is a word of an instruction (F, SA, C, ...), counted
// from #0 in its list, or a phase of a repair (open, report, decide, load, move, agree, adopt), or
// save, renew, renewing or end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.hpp"
#include "engine/fault_point.hpp"

namespace rhizome::engine {

enum class FaultKind : std::uint8_t { kill, stop, exit, abort };

[[nodiscard]] std::string_view name_of(FaultKind kind);

struct Fault {
    FaultKind how;
    WorkerId worker;
    std::optional<std::int32_t> step;  // any
    Phase phase;
    std::optional<schedule::Kind> kind;
    std::int32_t index = 0;  // of the instruction
};

struct Soak {
    std::uint64_t seed;
    double chance;
};

struct FaultPlan {
    std::vector<Fault> faults{};
    std::optional<Soak> soak{};
};

/// Or what is wrong with the text.
struct ParsedFaults {
    FaultPlan plan;
    std::string problem;  // empty: none
};
[[nodiscard]] ParsedFaults parse_faults(std::string_view text);

/// What is in store for one worker. Each fault strikes once.
class FaultWatch {
  public:
    FaultWatch(FaultPlan plan, WorkerId self) : plan_{std::move(plan)}, self_{self} {}

    /// To be asked at every place that the worker passes, in its order; `members` live with it.
    [[nodiscard]] std::optional<FaultKind> strikes(const Point& point, std::size_t members);

  private:
    FaultPlan plan_;
    WorkerId self_;
    std::uint64_t passed_ = 0;
};

}  // namespace rhizome::engine
