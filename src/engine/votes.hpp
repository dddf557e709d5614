// What workers say to each other in an agreement besides that they have what it is about. Everybody
// votes, and what all have said is known to all: they act on it alike, without a further message.
#pragma once

#include <cstdint>

#include "engine/messenger.hpp"

namespace rhizome::engine {

/// Bits. A bit is set in the outcome if everybody set it, so each is named for the usual case.
using Votes = std::uint32_t;

namespace vote {

inline constexpr Votes go_on = 1;     // nobody asks for an end of the run after this step
inline constexpr Votes no_save = 2;   // nobody asks for a state to be saved after it
inline constexpr Votes idle = 4;      // nobody has anything under way for a save
inline constexpr Votes well = 8;      // and what was under way has not failed
inline constexpr Votes patient = 16;  // nobody has waited for a save for too long
inline constexpr Votes finite = 32;   // nobody has a parameter that is not finite
inline constexpr Votes calm = 64;     // nobody has come through a loss lately
inline constexpr Votes all = 127;

}  // namespace vote

struct Voted {
    CommStatus status;  // ok: nobody is missing, nobody gave up
    Votes all;          // 0 if not
};

/// One agreement. Whoever gives up (Worker::abandon) takes part with no vote at all, and the others
/// learn of it as `revoked`.
[[nodiscard]] Voted agree_on(Messenger& messenger, Votes mine);
}  // namespace rhizome::engine
