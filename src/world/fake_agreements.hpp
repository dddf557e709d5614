// The agreements of a fake world. Invariant: one decision for each, taken once all who live have
// given their flags; so everybody who learns of it learns the same, whoever dies meanwhile.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "world/fake_draws.hpp"
#include "world/fake_turns.hpp"
#include "world/fake_world.hpp"

namespace rhizome::world {

class FakeAgreements {
  public:
    FakeAgreements(const FakeWorldConfig& config, FakeTurns& turns, FakeDraws& draws);

    /// Gives the worker's flags to its next agreement, and the number of that.
    [[nodiscard]] std::size_t give(WorkerId worker, std::uint32_t flags);
    /// Once the worker has learned of it. Whoever waits for agree is woken then.
    [[nodiscard]] std::optional<Agreement> learned(WorkerId worker, std::size_t number) const;

    /// The worker is gone. Whether what it gave to an open agreement counts is drawn now, for all.
    void leave(WorkerId worker);
    /// Somebody who lives knows that it is gone.
    void detect(WorkerId gone);

  private:
    struct Member {
        std::size_t given = 0;    // agreements
        std::size_t learned = 0;  // one past the last
        bool gone = false;
        bool detected = false;
    };
    struct Round {
        std::vector<std::optional<std::uint32_t>> flags;  // by worker; empty once decided
        std::optional<Agreement> decision;
    };

    void decide_open();
    [[nodiscard]] std::optional<Agreement> decision_of(const Round& round) const;
    void announce(std::size_t number);

    const FakeWorldConfig& config_;
    FakeTurns& turns_;
    FakeDraws& draws_;
    std::vector<Member> members_;  // by worker
    std::vector<Round> rounds_;
    std::size_t first_open_ = 0;  // all before it are decided
};

}  // namespace rhizome::world
