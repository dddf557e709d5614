#include "cli/start_agreement.hpp"

namespace rhizome::cli {
namespace {

// Flags are ANDed, so a flag that somebody clears is cleared for all.
constexpr std::uint32_t first_member_is_well = 1;
constexpr std::uint32_t all_flags = ~std::uint32_t{0} >> 1;  // not the sign of an int

constexpr std::uint32_t flag_of(ExitCode code) {
    return std::uint32_t{1} << (1 + static_cast<std::uint32_t>(code));
}

[[noreturn]] void fail_of_loss() {
    throw UserError{ExitCode::peer_lost,
                    "a worker was lost before the first step (it ended or did not answer), see "
                    "what it said"};
}

/// What nobody has cleared.
std::uint32_t flags_of(const world::Agreement& agreement) {
    if (agreement.status != CommStatus::ok) fail_of_loss();
    return agreement.flags;
}

std::uint32_t agreed_flags(world::World& world, Nanoseconds patience, std::uint32_t flags) {
    return flags_of(world.agree(flags, world.clock().now() + patience));
}

std::uint32_t flags_about(const world::World& world, const std::optional<UserError>& problem) {
    std::uint32_t flags = all_flags;
    if (problem) flags &= ~flag_of(problem->code());
    if (problem && world::is_first(world)) flags &= ~first_member_is_well;
    return flags;
}

/// Throws the problem that somebody has.
void act_on(std::uint32_t agreed, const world::World& world,
            const std::optional<UserError>& problem) {
    if (agreed == 0) fail_of_loss();  // somebody gave up, after a loss that it saw
    const bool first_is_well = (agreed & first_member_is_well) != 0;
    if (problem) {
        throw world::is_first(world) || first_is_well ? *problem : UserError{problem->code(), ""};
    }
    for (std::uint32_t code = 0; code < 16; ++code) {
        if ((agreed & flag_of(static_cast<ExitCode>(code))) == 0) {
            throw UserError{static_cast<ExitCode>(code), ""};
        }
    }
}

}  // namespace

void agree_to_start(world::World& world, Nanoseconds patience,
                    const std::optional<UserError>& problem) {
    act_on(agreed_flags(world, patience, flags_about(world, problem)), world, problem);
}

void agree_to_start(engine::Worker& worker, const std::optional<UserError>& problem) {
    const world::World& world = worker.messenger().world();
    act_on(flags_of(worker.agree_on_flags(flags_about(world, problem))), world, problem);
}

void agree_on(world::World& world, Nanoseconds patience, std::uint64_t number,
              const UserError& if_not) {
    constexpr std::uint32_t piece_bits = 15;
    constexpr std::uint32_t piece_mask = (1U << piece_bits) - 1;
    bool all_the_same = true;
    for (std::uint32_t shift = 0; shift < 64; shift += piece_bits) {
        // A bit that differs is cleared by one of them in the piece or in its complement.
        const auto piece = static_cast<std::uint32_t>(number >> shift) & piece_mask;
        const std::uint32_t flags = piece | (~piece & piece_mask) << piece_bits;
        if (agreed_flags(world, patience, flags) != flags) all_the_same = false;
    }
    if (all_the_same) return;
    throw UserError{if_not.code(), world::is_first(world) ? if_not.what() : ""};
}

}  // namespace rhizome::cli
