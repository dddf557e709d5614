// The agreements of a fake world, about flags and about who the members of the next epoch are.
// Invariant: one decision for each, taken once all who live have come to it; so everybody who
// learns of it learns the same, whoever dies meanwhile.
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

    /// The worker comes to the opening of the next epoch.
    void come(WorkerId worker);
    /// The members of that epoch, once the worker has learned of it; then it is in it.
    [[nodiscard]] std::optional<std::vector<WorkerId>> opened(WorkerId worker);

    /// The worker is gone. Whether what it gave to an open agreement counts is drawn now, for all.
    void leave(WorkerId worker);
    /// Somebody who lives knows that it is gone.
    void detect(WorkerId gone);

  private:
    struct Member {
        std::size_t given = 0;    // agreements
        std::size_t learned = 0;  // one past the last
        std::size_t epoch = 0;
        bool knows_next = false;  // the members of the next epoch
        bool gone = false;
        bool detected = false;
    };
    struct Round {
        std::size_t epoch;
        std::vector<std::optional<std::uint32_t>> flags;  // by worker; empty once decided
        std::optional<Agreement> decision;
    };
    void decide_open();
    [[nodiscard]] std::optional<Agreement> decision_of(const Round& round) const;
    void announce(std::size_t number);
    void decide_opening();
    [[nodiscard]] bool is_gone(WorkerId worker) const {
        return members_[worker.index()].gone && members_[worker.index()].detected;
    }
    [[nodiscard]] Nanoseconds latency() {
        return draws_.between(config_.latency_min, config_.latency_max);
    }

    const FakeWorldConfig& config_;
    FakeTurns& turns_;
    FakeDraws& draws_;
    std::vector<Member> members_;  // by worker
    std::vector<Round> rounds_;
    std::size_t first_open_ = 0;                      // all before it are decided
    std::vector<std::vector<WorkerId>> memberships_;  // by epoch, ascending
    std::vector<bool> came_;  // by worker, to the opening of the epoch behind those
};

}  // namespace rhizome::world
