// The point of no return: whatever an agreement comes to, a step is committed only if all gave
// their word that it is complete and finite, and nobody was missing.
#include <gtest/gtest.h>

#include "support/engine_run.hpp"
#include "world/fake_world.hpp"

namespace rhizome::tests {
namespace {

using namespace std::chrono_literals;
using engine::StepEnd;
using world::Agreement;
using world::Tag;
using world::Ticket;

/// Another world, in which agreements end as a test wants, whatever was given.
class VerdictWorld final : public world::World {
  public:
    VerdictWorld(world::World& inner, Agreement verdict) : inner_{inner}, verdict_{verdict} {}

    [[nodiscard]] WorkerId self() const override { return inner_.self(); }
    [[nodiscard]] const std::vector<WorkerId>& members() const override { return inner_.members(); }
    [[nodiscard]] const Clock& clock() const override { return inner_.clock(); }
    [[nodiscard]] Ticket send(WorkerId to, Tag tag, std::span<const std::byte> bytes) override {
        return inner_.send(to, tag, bytes);
    }
    [[nodiscard]] Ticket receive(WorkerId from, Tag tag, std::span<std::byte> bytes) override {
        return inner_.receive(from, tag, bytes);
    }
    [[nodiscard]] std::optional<CommStatus> poll(Ticket ticket) override {
        return inner_.poll(ticket);
    }
    void rest(Nanoseconds until) override { inner_.rest(until); }
    [[nodiscard]] Agreement agree(std::uint32_t flags, Nanoseconds /*deadline*/) override {
        given = flags;
        return verdict_;
    }
    void revoke() override { ++revoked; }
    [[nodiscard]] Epoch epoch() const override { return inner_.epoch(); }
    [[nodiscard]] CommStatus open_epoch(Nanoseconds deadline) override {
        return inner_.open_epoch(deadline);
    }
    [[nodiscard]] bool runs_short() const override { return inner_.runs_short(); }
    [[nodiscard]] CommStatus renew(Nanoseconds deadline) override { return inner_.renew(deadline); }

    std::uint32_t given = 0;
    int revoked = 0;

  private:
    world::World& inner_;
    Agreement verdict_;
};

// As a step's agreement has them.
constexpr std::uint32_t complete = 1;
constexpr std::uint32_t finite = engine::vote::finite << 1;
constexpr std::uint32_t go_on = engine::vote::go_on << 1;
constexpr std::uint32_t others = (engine::vote::all << 1) & ~(finite | go_on);

class Commit : public testing::Test {
  protected:
    struct Found {
        StepEnd end;
        bool committed;
        bool changed;  // the state
        std::uint32_t given;
        CommStatus abandoned;
    };

    /// One worker, one step.
    Found step(Agreement verdict, engine::Votes votes = engine::vote::all) {
        const auto inner = world::make_solo_world();
        VerdictWorld world{*inner, verdict};
        const auto device = device::make_reference_device(1);
        const auto plan = plan_of({}, network_.table(), world.members(), options_.lanes, 0);
        engine::Worker worker{*device, network_, text_, nullptr, world, plan, config()};
        const auto before = owned_digests(worker, network_.table());
        const StepEnd end = worker.run_step(Step{0}, votes);
        const std::uint32_t given = world.given;
        const bool changed = owned_digests(worker, network_.table()) != before;
        return {end, worker.committed_steps() == 1, changed, given, worker.abandon()};
    }
    [[nodiscard]] engine::WorkerConfig config(Nanoseconds patience = 60s) const {
        return {
            .seed = 1, .rows = options_.rows, .optimizer = small_optimizer(), .patience = patience};
    }

    SmallOptions options_{};
    model::Network network_ = network_of(options_);
    MemoryText text_ = small_text();
};

TEST_F(Commit, HappensIfAllSaySo) {
    const Found found = step({CommStatus::ok, complete | finite | go_on});
    EXPECT_EQ(found.end.status, CommStatus::ok);
    EXPECT_TRUE(found.committed);
    EXPECT_TRUE(found.changed);
    EXPECT_EQ(found.end.votes, engine::vote::finite | engine::vote::go_on);
}

TEST_F(Commit, HappensIfSomebodyAsksToStop) {
    const Found found = step({CommStatus::ok, complete | finite});
    EXPECT_EQ(found.end.status, CommStatus::ok);
    EXPECT_TRUE(found.committed);
    EXPECT_TRUE(found.changed);
    EXPECT_EQ(found.end.votes, engine::vote::finite);
}

TEST_F(Commit, DoesNotHappenIfSomebodyIsMissing) {
    const Found found = step({CommStatus::peer_lost, complete | finite | go_on});
    EXPECT_EQ(found.end.status, CommStatus::peer_lost);
    EXPECT_EQ(found.abandoned, CommStatus::ok);
    EXPECT_FALSE(found.committed);
    EXPECT_FALSE(found.changed);
}

TEST_F(Commit, DoesNotHappenIfTheAgreementIsLate) {
    const Found found = step({CommStatus::timed_out, complete | finite | go_on});
    EXPECT_EQ(found.end.status, CommStatus::timed_out);
    EXPECT_FALSE(found.committed);
    EXPECT_FALSE(found.changed);
    // The others may have been told yes.
    EXPECT_EQ(found.abandoned, CommStatus::timed_out);
}

TEST_F(Commit, DoesNotHappenIfSomebodyGaveUp) {
    const Found found = step({CommStatus::ok, finite | go_on});
    EXPECT_EQ(found.end.status, CommStatus::revoked);
    EXPECT_FALSE(found.committed);
    EXPECT_FALSE(found.changed);
}

TEST_F(Commit, IsAskedForWithTheWorkersWord) {
    EXPECT_EQ(step({CommStatus::timed_out, 0}).given, complete | finite | go_on | others);
    EXPECT_EQ(step({CommStatus::timed_out, 0}, engine::vote::idle).given,
              complete | finite | (engine::vote::idle << 1));
}

TEST_F(Commit, IsNotForOneWhoGivesUp) {
    const auto inner = world::make_solo_world();
    VerdictWorld world{*inner, {CommStatus::ok, 0}};
    const auto device = device::make_reference_device(1);
    const auto plan = plan_of({}, network_.table(), world.members(), options_.lanes, 0);
    engine::Worker worker{*device, network_, text_, nullptr, world, plan, config()};
    world.given = complete;
    (void)worker.abandon();
    EXPECT_EQ(world.given & complete, 0U);
    EXPECT_EQ(world.revoked, 1);
}

/// A worker is lost; those who notice give up and live on. Nobody waits for them.
TEST_F(Commit, IsNotWaitedForFromOneWhoGaveUp) {
    constexpr std::int32_t workers = 4;
    int ended = 0;
    const auto outcomes = world::run_fake_world(
        {.workers = workers, .seed = 2, .kills = {{.worker = WorkerId{3}, .call = 60}}},
        [&](world::World& world) {
            const auto device = device::make_reference_device(1);
            const auto plan =
                plan_of({.depths = {4}}, network_.table(), world.members(), options_.lanes, 0);
            engine::Worker worker{*device, network_, text_, nullptr, world, plan, config(60s)};
            Trace trace;
            const engine::TrainEnd end =
                engine::train(worker, {.steps = 20, .evaluate_interval = 0}, trace);
            EXPECT_NE(end.status, CommStatus::ok);
            EXPECT_LT(world.clock().now(), 1s);
            ++ended;
            while (world.clock().now() < 300s) world.rest(300s);
        });
    for (const auto& outcome : outcomes) {
        if (outcome.error) std::rethrow_exception(outcome.error);
    }
    EXPECT_EQ(outcomes.back().end, world::FakeEnd::killed);
    EXPECT_EQ(ended, workers - 1);
}

}  // namespace
}  // namespace rhizome::tests
