#include "engine/votes.hpp"

namespace rhizome::engine {
namespace {

// With it a worker says that it has all that the agreement is about.
constexpr std::uint32_t complete = 1;
constexpr int above = 1;  // votes stand above it

}  // namespace

Voted agree_on(Messenger& messenger, Votes mine) {
    const world::Agreement agreement =
        messenger.world().agree(complete | (mine << above), messenger.deadline());
    if (agreement.status != CommStatus::ok) return {agreement.status, 0};
    if ((agreement.flags & complete) == 0) return {CommStatus::revoked, 0};
    return {CommStatus::ok, agreement.flags >> above};
}

}  // namespace rhizome::engine
