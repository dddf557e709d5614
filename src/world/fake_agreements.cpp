#include "world/fake_agreements.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace rhizome::world {

FakeAgreements::FakeAgreements(const FakeWorldConfig& config, FakeTurns& turns, FakeDraws& draws)
    : config_{config},
      turns_{turns},
      draws_{draws},
      members_(static_cast<std::size_t>(config.workers)) {}

std::size_t FakeAgreements::give(WorkerId worker, std::uint32_t flags) {
    const std::size_t number = members_[worker.index()].given++;
    if (number == rounds_.size()) {
        rounds_.emplace_back().flags.resize(members_.size());
    }
    // Nobody decides without the flags of one who lives, so this one is still open.
    ENSURE(!rounds_[number].decision);
    rounds_[number].flags[worker.index()] = flags;
    decide_open();
    return number;
}

std::optional<Agreement> FakeAgreements::learned(WorkerId worker, std::size_t number) const {
    if (members_[worker.index()].learned <= number) return std::nullopt;
    return rounds_[number].decision;
}

void FakeAgreements::leave(WorkerId worker) {
    members_[worker.index()].gone = true;
    for (std::size_t number = first_open_; number < rounds_.size(); ++number) {
        auto& flags = rounds_[number].flags;
        if (!rounds_[number].decision && flags[worker.index()] && draws_.chance(0.5)) {
            flags[worker.index()].reset();
        }
    }
    decide_open();
}

void FakeAgreements::detect(WorkerId gone) {
    if (std::exchange(members_[gone.index()].detected, true)) return;
    decide_open();
}

void FakeAgreements::decide_open() {
    for (std::size_t number = first_open_; number < rounds_.size(); ++number) {
        Round& round = rounds_[number];
        if (round.decision) continue;
        round.decision = decision_of(round);
        if (round.decision) announce(number);
    }
    while (first_open_ < rounds_.size() && rounds_[first_open_].decision) ++first_open_;
}

std::optional<Agreement> FakeAgreements::decision_of(const Round& round) const {
    Agreement decision{CommStatus::ok, std::numeric_limits<std::uint32_t>::max()};
    for (std::size_t worker = 0; worker < members_.size(); ++worker) {
        const auto& flags = round.flags[worker];
        if (flags) {
            decision.flags &= *flags;
        } else if (members_[worker].gone && members_[worker].detected) {
            decision.status = CommStatus::peer_lost;
        } else {
            return std::nullopt;
        }
    }
    return decision;
}

void FakeAgreements::announce(std::size_t number) {
    rounds_[number].flags = {};
    for (std::int32_t index = 0; std::cmp_less(index, members_.size()); ++index) {
        const WorkerId worker{index};
        const Nanoseconds delay = draws_.between(config_.latency_min, config_.latency_max);
        turns_.at(turns_.now() + delay, [this, worker, number] {
            std::size_t& learned = members_[worker.index()].learned;
            learned = std::max(learned, number + 1);
            turns_.wake(worker, FakeWait::agree);
        });
    }
}

}  // namespace rhizome::world
