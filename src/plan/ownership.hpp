// Chooses who owns what. The rules, the stronger first; each decides only among what the rules
// above it leave open:
//
//   1. A chunk has min(R, workers) distinct owners.
//   2. They lie in as many failure domains as they can: min(R, workers, domains) of them.
//   3. As many of them as possible are holders: workers that compute a layer that uses the tensor,
//      tied uses included. Then as many as possible are shadows: the worker of the stage before a
//      holder's stage in its pipeline, for the first stage that of the next (Bamboo's redundancy,
//      Thorpe et al., NSDI 2023, section 5). Then anybody, spares too.
//   4. The owned elements are even over the workers, as far as a difference of more than one chunk
//      goes. The maximum is as small as the rules above allow, then the second largest, and so on.
//   5. With a map from before, as few owners as possible are replaced. So a loss moves what the
//      lost worker owned and what rule 1 to 4 then demand; a newcomer gets its share, no more.
//   6. The owned elements are even to the last one.
//
// 4 to 6 hold for the chunks of each size, the largest first, given where the larger ones lie
// (plan/balance.hpp says why and how); where all chunks are equal, for the whole map. Without a map
// from before, 5 is empty and 6 includes 4.
//
// The first owner, who sends the parameters, is a holder where an owner is. Rules 4 to 6 apply to
// first owners by themselves: the elements they send are even, and few of them change.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ids.hpp"
#include "core/layer_table.hpp"
#include "core/ownership_map.hpp"
#include "core/run_shape.hpp"

namespace rhizome::plan {

using FailureDomain = Id<struct FailureDomainTag>;  // what is lost together: a node, a rack, a zone

/// The domains stand by place in shape.workers. `previous` is of the same table; owners that are
/// no longer there may appear in it.
[[nodiscard]] OwnershipMap assign_owners(const LayerTable& table, const RunShape& shape,
                                         const std::vector<FailureDomain>& domains,
                                         std::int32_t redundancy,
                                         const OwnershipMap* previous = nullptr);

}  // namespace rhizome::plan
