// Beginning together: a mistake of the user is often met by every worker, and sometimes by one
// whose node lacks a file. Either way it is said once, and all end with its exit code.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "core/error.hpp"
#include "engine/worker.hpp"
#include "world/world.hpp"

namespace rhizome::cli {

/// One worker's word on whether it can start: nothing, or what is wrong. Throws UserError on all
/// workers if anybody has something: with its text where nobody else says it, elsewhere without.
void agree_to_start(world::World& world, Nanoseconds patience,
                    const std::optional<UserError>& problem);

/// Likewise, of workers: it counts as one of their agreements, so a loss in it can be repaired.
void agree_to_start(engine::Worker& worker, const std::optional<UserError>& problem);

/// Throws `if_not` on all workers, with its text on the first, unless all have the same number.
void agree_on(world::World& world, Nanoseconds patience, std::uint64_t number,
              const UserError& if_not);

/// Makes something that every worker needs, or throws as above.
template <class Make>
auto agree_to_start(world::World& world, Nanoseconds patience, const Make& make)
    -> decltype(make()) {
    decltype(make()) made{};
    std::optional<UserError> problem;
    try {
        made = make();
    } catch (const UserError& error) {
        problem = error;
    }
    agree_to_start(world, patience, problem);
    return made;
}

}  // namespace rhizome::cli
