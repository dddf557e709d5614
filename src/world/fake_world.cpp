#include "world/fake_world.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "world/fake_agreements.hpp"
#include "world/fake_draws.hpp"
#include "world/fake_post.hpp"
#include "world/fake_turns.hpp"

namespace rhizome::world {
namespace {

/// Unwinds a worker that has been killed. No std::exception, so that nobody handles it by mistake.
struct Killed {};

/// A revocation on its way: who began it, and whether it got out before that one died.
struct Revocation {
    WorkerId by;
    Epoch epoch;
    bool stays_unheard = false;
};

/// Who lives, who knows of whom, and how each of them ended.
class FakeRun {
  public:
    explicit FakeRun(const FakeWorldConfig& config);
    [[nodiscard]] std::vector<FakeOutcome> run(const std::function<void(World&)>& body);

    [[nodiscard]] const std::vector<WorkerId>& members(WorkerId self) const {
        return lives_[self.index()].members;
    }
    [[nodiscard]] Epoch epoch(WorkerId self) const { return Epoch{lives_[self.index()].epoch}; }
    [[nodiscard]] FakeTurns& turns() { return turns_; }
    [[nodiscard]] FakePost& post() { return post_; }

    /// Counts the call and lets happen what is due at it. False: the worker is unwound, so the call
    /// must do nothing.
    [[nodiscard]] bool enter(WorkerId self);
    void yield_by_chance(WorkerId self);
    void rest(WorkerId self, Nanoseconds until);
    [[nodiscard]] Agreement agree(WorkerId self, std::uint32_t flags, Nanoseconds deadline);
    void revoke(WorkerId self);
    [[nodiscard]] CommStatus open_epoch(WorkerId self, Nanoseconds deadline);
    [[nodiscard]] bool runs_short(WorkerId self) const;
    [[nodiscard]] CommStatus renew(WorkerId self, Nanoseconds deadline);
    [[noreturn]] void die(WorkerId self);

  private:
    struct Life {
        std::vector<WorkerId> members;
        std::int32_t epoch = 0;
        std::int32_t epochs_left = 0;
        std::int32_t renewals = 0;
        std::int32_t revoked_epochs = 0;  // all before this one
        [[nodiscard]] bool knows_revoked(Epoch which) const {
            return which.value() < revoked_epochs;
        }

        bool gone = false;
        bool dies = false;  // at its next turn
        bool stopped = false;
        FakeOutcome outcome;
    };

    void live(WorkerId self, const std::function<void(World&)>& body);
    void strike(WorkerId self);
    [[nodiscard]] bool falls(WorkerId self);
    void leave(WorkerId self, FakeEnd end);
    void spread_loss(WorkerId gone, bool abrupt);
    void learn_revoked(WorkerId worker, Epoch epoch);
    [[nodiscard]] bool anybody_knows_revoked(Epoch epoch) const;

    [[nodiscard]] Life& life(WorkerId worker) { return lives_[worker.index()]; }

    const FakeWorldConfig config_;
    FakeDraws draws_;
    FakeTurns turns_;
    FakePost post_;
    FakeAgreements agreements_;
    std::vector<WorkerId> all_;
    std::vector<Life> lives_;  // by worker
    std::vector<std::shared_ptr<Revocation>> revocations_;
    std::int64_t calls_ = 0;
};

class FakeWorld final : public World {
  public:
    FakeWorld(FakeRun& run, WorkerId self) : run_{run}, self_{self} {}

    [[nodiscard]] WorkerId self() const override { return self_; }
    [[nodiscard]] const std::vector<WorkerId>& members() const override {
        return run_.members(self_);
    }
    [[nodiscard]] const Clock& clock() const override { return run_.turns().clock(); }

    [[nodiscard]] Ticket send(WorkerId to, Tag tag, std::span<const std::byte> bytes) override {
        if (!run_.enter(self_)) return Ticket{0};
        run_.yield_by_chance(self_);
        return run_.post().send(self_, to, tag, bytes);
    }
    [[nodiscard]] Ticket receive(WorkerId from, Tag tag, std::span<std::byte> bytes) override {
        if (!run_.enter(self_)) return Ticket{0};
        run_.yield_by_chance(self_);
        return run_.post().receive(from, self_, tag, bytes);
    }
    [[nodiscard]] std::optional<CommStatus> poll(Ticket ticket) override {
        if (!run_.enter(self_)) return CommStatus::revoked;
        run_.yield_by_chance(self_);
        return run_.post().poll(self_, ticket);
    }
    void rest(Nanoseconds until) override {
        if (run_.enter(self_)) run_.rest(self_, until);
    }
    [[nodiscard]] Agreement agree(std::uint32_t flags, Nanoseconds deadline) override {
        if (!run_.enter(self_)) return {CommStatus::timed_out, 0};
        return run_.agree(self_, flags, deadline);
    }
    void revoke() override {
        if (!run_.enter(self_)) return;
        run_.yield_by_chance(self_);
        run_.revoke(self_);
    }
    [[nodiscard]] Epoch epoch() const override { return run_.epoch(self_); }
    [[nodiscard]] CommStatus open_epoch(Nanoseconds deadline) override {
        if (!run_.enter(self_)) return CommStatus::timed_out;
        return run_.open_epoch(self_, deadline);
    }
    [[nodiscard]] bool runs_short() const override { return run_.runs_short(self_); }
    [[nodiscard]] CommStatus renew(Nanoseconds deadline) override {
        if (!run_.enter(self_)) return CommStatus::timed_out;
        return run_.renew(self_, deadline);
    }

    [[noreturn]] void die() { run_.die(self_); }

  private:
    FakeRun& run_;
    WorkerId self_;
};

FakeRun::FakeRun(const FakeWorldConfig& config)
    : config_{config},
      draws_{config.seed},
      turns_{config.workers, draws_},
      post_{config_, turns_, draws_},
      agreements_{config_, turns_, draws_},
      lives_(static_cast<std::size_t>(config.workers)) {
    for (std::int32_t worker = 0; worker < config.workers; ++worker) all_.emplace_back(worker);
    for (Life& each : lives_) {
        each.members = all_;
        each.epochs_left = config_.spares;
    }
    for (const FakeKill& kill : config_.kills) ENSURE(kill.worker.value() < config.workers);
    for (const FakeStop& stop : config_.stops) ENSURE(stop.worker.value() < config.workers);
    turns_.describe_with([this](WorkerId worker) {
        return ", " + std::to_string(life(worker).outcome.calls) + " calls" +
               post_.describe(worker);
    });
}

std::vector<FakeOutcome> FakeRun::run(const std::function<void(World&)>& body) {
    turns_.run([&](WorkerId worker) { live(worker, body); });
    std::vector<FakeOutcome> outcomes;
    for (const WorkerId worker : all_) {
        life(worker).outcome.unreceived = post_.unreceived(worker);
        outcomes.push_back(std::move(life(worker).outcome));
    }
    return outcomes;
}

void FakeRun::live(WorkerId self, const std::function<void(World&)>& body) {
    FakeEnd end = FakeEnd::returned;
    try {
        FakeWorld world{*this, self};
        body(world);
    } catch (const Killed&) {
        ENSURE(life(self).gone);
    } catch (...) {
        life(self).outcome.error = std::current_exception();
        end = FakeEnd::threw;
    }
    if (!life(self).gone) leave(self, end);
}

bool FakeRun::enter(WorkerId self) {
    Life& mine = life(self);
    if (mine.gone) {
        if (std::uncaught_exceptions() == 0) throw Killed{};
        return false;
    }
    if (++calls_ > config_.calls_max && !turns_.failed()) {
        turns_.fail("more calls than the run may take");
    }
    if (turns_.failed()) {
        turns_.throw_failure();
        return false;
    }
    strike(self);
    ++mine.outcome.calls;
    return !falls(self);
}

/// What the configuration has in store for this call.
void FakeRun::strike(WorkerId self) {
    Life& mine = life(self);
    const std::int64_t call = mine.outcome.calls;
    for (const FakeKill& kill : config_.kills) {
        if (kill.worker != self || kill.call != call) continue;
        if (kill.after == Nanoseconds{0}) {
            mine.dies = true;
            return;
        }
        turns_.at(turns_.now() + kill.after, [this, self] {
            life(self).dies = true;
            turns_.thaw(self);
        });
    }
    for (const FakeStop& stop : config_.stops) {
        if (stop.worker != self || stop.call != call) continue;
        mine.stopped = true;
        post_.stop(self);
        turns_.freeze(self);
        return;
    }
}

/// Whether the worker dies here. Does not return then, unless it is unwinding already.
bool FakeRun::falls(WorkerId self) {
    const Life& mine = life(self);
    if (!mine.dies && !mine.stopped) return false;
    if (!mine.gone) leave(self, mine.dies ? FakeEnd::killed : FakeEnd::stopped);
    if (std::uncaught_exceptions() == 0) throw Killed{};
    return true;
}

void FakeRun::yield_by_chance(WorkerId self) {
    if (draws_.chance(config_.switch_chance)) {
        turns_.yield(self);
    } else {
        turns_.happen();
    }
}

void FakeRun::rest(WorkerId self, Nanoseconds until) {
    if (post_.has_news(self) || until <= turns_.now()) {
        turns_.yield(self);
    } else {
        turns_.wait(self, FakeWait::rest, until);
    }
    post_.forget_news(self);
    (void)falls(self);
}

Agreement FakeRun::agree(WorkerId self, std::uint32_t flags, Nanoseconds deadline) {
    const std::size_t number = agreements_.give(self, flags);
    while (true) {
        const auto agreement = agreements_.learned(self, number);
        if (agreement) return *agreement;
        if (turns_.now() >= deadline || turns_.failed()) return {CommStatus::timed_out, 0};
        turns_.wait(self, FakeWait::agree, deadline);
        if (falls(self)) return {CommStatus::timed_out, 0};
    }
}

void FakeRun::revoke(WorkerId self) {
    const Epoch epoch{life(self).epoch};
    if (life(self).knows_revoked(epoch)) return;
    const auto revocation = std::make_shared<Revocation>(Revocation{self, epoch});
    revocations_.push_back(revocation);
    learn_revoked(self, epoch);
    for (const WorkerId worker : life(self).members) {
        if (worker == self) continue;
        const Nanoseconds delay = draws_.between(config_.latency_min, config_.latency_max);
        turns_.at(turns_.now() + delay, [this, worker, revocation] {
            if (!revocation->stays_unheard) learn_revoked(worker, revocation->epoch);
        });
    }
}

void FakeRun::learn_revoked(WorkerId worker, Epoch epoch) {
    Life& its = life(worker);
    if (its.gone || its.stopped || its.knows_revoked(epoch)) return;
    its.revoked_epochs = epoch.value() + 1;
    post_.revoke(worker, epoch);
}

bool FakeRun::anybody_knows_revoked(Epoch epoch) const {
    return std::any_of(lives_.begin(), lives_.end(), [epoch](const Life& each) {
        return each.knows_revoked(epoch) && !each.gone;
    });
}

CommStatus FakeRun::open_epoch(WorkerId self, Nanoseconds deadline) {
    if (life(self).epochs_left == 0) return CommStatus::revoked;
    agreements_.come(self);
    while (true) {
        if (auto members = agreements_.opened(self)) {
            Life& mine = life(self);
            mine.members = *std::move(members);
            ++mine.epoch;
            --mine.epochs_left;
            post_.open_epoch(self);
            return CommStatus::ok;
        }
        if (turns_.now() >= deadline || turns_.failed()) return CommStatus::timed_out;
        turns_.wait(self, FakeWait::agree, deadline);
        if (falls(self)) return CommStatus::timed_out;
    }
}

bool FakeRun::runs_short(WorkerId self) const {
    const Life& mine = lives_[self.index()];
    const auto losses_max = static_cast<std::int32_t>(mine.members.size()) - 1;
    return mine.epochs_left < std::min(losses_max, config_.spares);
}

CommStatus FakeRun::renew(WorkerId self, Nanoseconds deadline) {
    const bool fails = self == WorkerId{0} && life(self).renewals++ < config_.renewals_failing;
    const Agreement agreement = agree(self, fails ? 0 : 1, deadline);
    if (agreement.status != CommStatus::ok) return agreement.status;
    if (agreement.flags == 0) return CommStatus::revoked;
    life(self).epochs_left = config_.spares;
    return CommStatus::ok;
}

void FakeRun::die(WorkerId self) {
    ENSURE(!life(self).gone && std::uncaught_exceptions() == 0);
    leave(self, FakeEnd::killed);
    throw Killed{};
}

void FakeRun::leave(WorkerId self, FakeEnd end) {
    Life& mine = life(self);
    mine.gone = true;
    mine.outcome.end = end;
    mine.outcome.untold = post_.untold(self);
    mine.outcome.ended_at = turns_.now();
    const bool abrupt = end != FakeEnd::returned;
    if (end == FakeEnd::threw) {
        post_.leave(self, FakeCut::threw);
    } else {
        post_.leave(self, abrupt ? FakeCut::killed : FakeCut::returned);
    }
    agreements_.leave(self);
    // A revocation of which somebody knows goes on; one that nobody has heard may be lost.
    const Epoch epoch{mine.epoch};
    if (abrupt && !anybody_knows_revoked(epoch)) {
        for (const auto& revocation : revocations_) {
            if (revocation->by == self && revocation->epoch == epoch)
                revocation->stays_unheard = draws_.chance(0.5);
        }
    }
    spread_loss(self, abrupt);
}

void FakeRun::spread_loss(WorkerId gone, bool abrupt) {
    for (const WorkerId worker : all_) {
        if (life(worker).gone) continue;
        Nanoseconds known = turns_.now();
        if (!abrupt) known = std::max(known, post_.last_arrival(gone, worker));
        known += draws_.between(Nanoseconds{0}, config_.detection_max);
        turns_.at(known, [this, gone, worker] {
            if (life(worker).gone || life(worker).stopped) return;
            post_.lose_peer(worker, gone);
            agreements_.detect(gone);
        });
    }
}

}  // namespace

void die_in(World& world) { dynamic_cast<FakeWorld&>(world).die(); }

std::vector<FakeOutcome> run_fake_world(const FakeWorldConfig& config,
                                        const std::function<void(World&)>& body) {
    return FakeRun{config}.run(body);
}

}  // namespace rhizome::world
