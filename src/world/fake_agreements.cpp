#include "world/fake_agreements.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace rhizome::world {

FakeAgreements::FakeAgreements(const FakeWorldConfig& config, FakeTurns& turns, FakeDraws& draws)
    : config_{config},
      turns_{turns},
      draws_{draws},
      members_(static_cast<std::size_t>(config.workers)),
      came_(members_.size()) {
    auto& all = memberships_.emplace_back();
    for (std::int32_t worker = 0; worker < config.workers; ++worker) all.emplace_back(worker);
}

std::size_t FakeAgreements::give(WorkerId worker, std::uint32_t flags) {
    const std::size_t number = members_[worker.index()].given++;
    if (number == rounds_.size()) {
        rounds_.push_back({.epoch = members_[worker.index()].epoch, .flags = {}, .decision = {}});
        rounds_.back().flags.resize(members_.size());
    }
    // Nobody decides without the flags of one who lives, so this one is still open.
    ENSURE(!rounds_[number].decision && rounds_[number].epoch == members_[worker.index()].epoch);
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
    if (came_[worker.index()] && draws_.chance(0.5)) came_[worker.index()] = false;
    decide_open();
    decide_opening();
}

void FakeAgreements::detect(WorkerId gone) {
    if (std::exchange(members_[gone.index()].detected, true)) return;
    decide_open();
    decide_opening();
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
    for (const WorkerId worker : memberships_[round.epoch]) {
        const auto& flags = round.flags[worker.index()];
        if (flags) {
            decision.flags &= *flags;
        } else if (is_gone(worker)) {
            decision.status = CommStatus::peer_lost;
        } else {
            return std::nullopt;
        }
    }
    return decision;
}

void FakeAgreements::announce(std::size_t number) {
    rounds_[number].flags = {};
    for (const WorkerId worker : memberships_[rounds_[number].epoch]) {
        turns_.at(turns_.now() + latency(), [this, worker, number] {
            std::size_t& learned = members_[worker.index()].learned;
            learned = std::max(learned, number + 1);
            turns_.wake(worker, FakeWait::agree);
        });
    }
}

void FakeAgreements::come(WorkerId worker) {
    ENSURE(members_[worker.index()].epoch + 1 == memberships_.size());
    came_[worker.index()] = true;
    decide_opening();
}

std::optional<std::vector<WorkerId>> FakeAgreements::opened(WorkerId worker) {
    Member& mine = members_[worker.index()];
    if (!mine.knows_next) return std::nullopt;
    mine.knows_next = false;
    return memberships_[++mine.epoch];
}

void FakeAgreements::decide_opening() {
    std::vector<WorkerId> members;
    for (const WorkerId worker : memberships_.back()) {
        if (came_[worker.index()]) {
            members.push_back(worker);
        } else if (!is_gone(worker)) {
            return;
        }
    }
    if (members.empty()) return;
    for (const WorkerId worker : members) {
        // All who live have been in the same agreements.
        const Member& member = members_[worker.index()];
        ENSURE(member.gone || (member.given == rounds_.size() && first_open_ == rounds_.size()));
        turns_.at(turns_.now() + latency(), [this, worker] {
            members_[worker.index()].knows_next = true;
            turns_.wake(worker, FakeWait::agree);
        });
    }
    memberships_.push_back(std::move(members));
    came_.assign(members_.size(), false);
}

}  // namespace rhizome::world
