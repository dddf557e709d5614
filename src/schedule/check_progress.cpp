#include <utility>

#include "schedule/check_private.hpp"

namespace rhizome::schedule {
namespace {

/// Runs all lists as far as they go. What can go on once can go on until it does, whatever else
/// happens first, so one order of events stands for all.
class Progress {
  public:
    Progress(const Schedule& schedule, const Ledger& ledger, Buffering buffering)
        : schedule_{schedule},
          ledger_{ledger},
          messages_max_{buffering.messages_max},
          partner_(ledger.peers.size(), nowhere),
          channel_(ledger.peers.size(), nowhere),
          head_{ledger.first_of},
          queued_(ledger.first_of.size(), false) {
        for (const Ends& ends : ledger.messages) {
            if (ends.sent == nowhere) continue;
            partner_[ends.sent] = ends.received;
            partner_[ends.received] = ends.sent;
        }
        number_channels();
    }

    [[nodiscard]] Fault run() {
        for (std::size_t worker = head_.size(); worker > 0; --worker) wake(worker - 1);
        while (!queue_.empty()) {
            const std::size_t worker = queue_.back();
            queue_.pop_back();
            queued_[worker] = false;
            while (head_[worker] < end_of(worker) && advance(worker)) {
            }
        }
        for (std::size_t worker = 0; worker < head_.size(); ++worker) {
            if (head_[worker] < end_of(worker)) return describe_circle(worker);
        }
        return std::nullopt;
    }

  private:
    [[nodiscard]] std::size_t end_of(std::size_t worker) const {
        return ledger_.first_of[worker] + schedule_.programs[worker].size();
    }

    [[nodiscard]] bool sends(std::size_t worker, std::size_t number) const {
        return is_send(schedule_.programs[worker][number - ledger_.first_of[worker]].kind);
    }

    /// One for every two workers and direction in which anything is sent.
    void number_channels() {
        std::vector<std::size_t> channel_to(head_.size(), nowhere);
        std::vector<std::size_t> first_sender(head_.size(), nowhere);
        for (std::size_t worker = 0; worker < head_.size(); ++worker) {
            for (std::size_t number = head_[worker]; number < end_of(worker); ++number) {
                if (partner_[number] == nowhere || !sends(worker, number)) continue;
                const std::size_t peer = ledger_.peers[number];
                if (std::exchange(first_sender[peer], worker) != worker) {
                    channel_to[peer] = unreceived_.size();
                    unreceived_.push_back(0);
                }
                channel_[number] = channel_to[peer];
                channel_[partner_[number]] = channel_to[peer];
            }
        }
    }

    void wake(std::size_t worker) {
        if (queued_[worker]) return;
        queued_[worker] = true;
        queue_.push_back(worker);
    }

    bool advance(std::size_t worker) {
        const std::size_t number = head_[worker];
        const std::size_t partner = partner_[number];
        if (partner == nowhere) {
            ++head_[worker];
            return true;
        }
        const std::size_t peer = ledger_.peers[number];
        if (messages_max_ == 0) {
            if (head_[peer] != partner) return false;
            ++head_[peer];
        } else if (sends(worker, number)) {
            if (messages_max_ && unreceived_[channel_[number]] >= *messages_max_) return false;
            ++unreceived_[channel_[number]];
        } else {
            if (head_[peer] <= partner) return false;
            --unreceived_[channel_[number]];
        }
        ++head_[worker];
        wake(peer);
        return true;
    }

    /// Whoever is stuck waits for somebody who is stuck, so from any of them a circle is reached.
    [[nodiscard]] std::string describe_circle(std::size_t worker) const {
        const auto waits_for = [&](std::size_t stuck) { return ledger_.peers[head_[stuck]]; };
        for (std::size_t i = 0; i < head_.size(); ++i) worker = waits_for(worker);
        const auto head = [&](std::size_t stuck) {
            return where(schedule_, stuck, head_[stuck] - ledger_.first_of[stuck]);
        };
        std::string text = head(worker) + ": it waits for ever (for ";
        for (std::size_t next = waits_for(worker); next != worker; next = waits_for(next)) {
            text += head(next) + ", who waits for ";
        }
        return text + "worker " + std::to_string(schedule_.shape.workers[worker].value()) + ")";
    }

    const Schedule& schedule_;
    const Ledger& ledger_;
    std::optional<std::int32_t> messages_max_;
    std::vector<std::size_t> partner_;      // by instruction: the other end of its message
    std::vector<std::size_t> channel_;      // by instruction
    std::vector<std::int32_t> unreceived_;  // by channel
    std::vector<std::size_t> head_;         // by worker: the instruction to be done next
    std::vector<std::size_t> queue_;        // workers that perhaps can go on
    std::vector<bool> queued_;              // by worker
};

}  // namespace

Fault find_deadlock(const Schedule& schedule, const Ledger& ledger, Buffering buffering) {
    return Progress{schedule, ledger, buffering}.run();
}

}  // namespace rhizome::schedule
