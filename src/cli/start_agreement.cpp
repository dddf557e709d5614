#include "cli/start_agreement.hpp"

namespace rhizome::cli {
namespace {

// Flags are ANDed, so a flag that somebody clears is cleared for all.
constexpr std::uint32_t first_member_is_well = 1;
constexpr std::uint32_t all_flags = ~std::uint32_t{0} >> 1;  // not the sign of an int

constexpr std::uint32_t flag_of(ExitCode code) {
    return std::uint32_t{1} << (1 + static_cast<std::uint32_t>(code));
}

}  // namespace

void agree_to_start(world::World& world, Nanoseconds patience,
                    const std::optional<UserError>& problem) {
    const bool first = world::is_first(world);
    std::uint32_t flags = all_flags;
    if (problem) flags &= ~flag_of(problem->code());
    if (problem && first) flags &= ~first_member_is_well;
    const world::Agreement agreement = world.agree(flags, world.clock().now() + patience);
    if (agreement.status != CommStatus::ok) {
        throw UserError{ExitCode::peer_lost,
                        "a worker was lost before the first step (it ended or did not answer), see "
                        "what it said"};
    }
    const bool first_is_well = (agreement.flags & first_member_is_well) != 0;
    if (problem) {
        throw first || first_is_well ? *problem : UserError{problem->code(), ""};
    }
    for (std::uint32_t code = 0; code < 16; ++code) {
        if ((agreement.flags & flag_of(static_cast<ExitCode>(code))) == 0) {
            throw UserError{static_cast<ExitCode>(code), ""};
        }
    }
}

}  // namespace rhizome::cli
