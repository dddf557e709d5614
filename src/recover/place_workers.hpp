// Who takes which place, so that as little as possible has to move: the assignment problem, solved
// exactly by shortest augmenting paths (Jonker and Volgenant, Computing 38, 1987).
#pragma once

#include <cstdint>
#include <vector>

namespace rhizome::recover {

/// For each place the worker (its number) that takes it, each worker at most once, with the least
/// sum of costs; `cost` by place and worker, at least as many workers as places. The same costs
/// give the same answer everywhere. O(places^2 * workers).
[[nodiscard]] std::vector<std::size_t> place_workers(
    const std::vector<std::vector<std::int64_t>>& cost);

}  // namespace rhizome::recover
