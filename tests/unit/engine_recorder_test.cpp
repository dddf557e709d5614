// What the engine tells a recorder: every instruction once and in order, each message at both ends,
// times that fit into their step and, on a paced device, are those of the schedule's dry run. And
// that being watched changes nothing.
#include "engine/recorder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "support/paced_run.hpp"
#include "world/fake_world.hpp"

namespace rhizome::tests {
namespace {

using namespace std::chrono_literals;
using engine::Awaited;
using engine::Direction;
using engine::Interval;
using engine::Transfer;
using engine::TurnKind;
using engine::Wait;
using schedule::Instruction;
using schedule::Style;

template <class What>
struct Recorded {
    What what;
    Interval when;
};

struct RecordedTurn {
    TurnKind kind;
    Step step;
    std::vector<Recorded<Instruction>> instructions{};
    std::vector<Recorded<Wait>> waits{};
    std::vector<Recorded<Transfer>> transfers{};
    std::optional<Interval> when{};  // none: it broke off
};

/// Keeps all that belongs to a turn; the engine also talks in between.
struct Memory final : engine::Recorder {
    std::vector<RecordedTurn> turns;

    [[nodiscard]] bool in_turn() const { return !turns.empty() && !turns.back().when; }
    void begin_turn(TurnKind kind, Step step) override { turns.push_back({kind, step}); }
    void end_turn(Interval when) override { turns.back().when = when; }
    void instruction(const Instruction& what, Interval when) override {
        turns.back().instructions.push_back({what, when});
    }
    void wait(const Wait& what, Interval when) override {
        if (in_turn()) turns.back().waits.push_back({what, when});
    }
    void transfer(const Transfer& what, Interval when) override {
        if (in_turn()) turns.back().transfers.push_back({what, when});
    }
    void named(std::string_view /*name*/, Interval /*when*/) override {}
};

struct Watched {
    std::vector<Memory> memories;  // by worker
    std::vector<WorkerEnd> ends;
};

const SmallOptions options{.dropout = 0.1, .rows = 1, .lanes = {8, 4}, .blocks = 3};
constexpr RunLength length{.steps = 2, .evaluate_interval = 1, .evaluation_microbatches = 3};
constexpr Accelerator accelerator;

enum class Timing : std::uint8_t { reference, paced };
enum class Watching : std::uint8_t { no, yes };

Watched run(std::int32_t workers, const Arrangement& arrangement, Timing timing,
            Watching watching = Watching::yes, std::vector<world::FakeKill> kills = {}) {
    const Nanoseconds latency{static_cast<std::int64_t>(accelerator.link_latency_s * 1e9)};
    const auto count = static_cast<std::size_t>(workers);
    const bool dies = !kills.empty();
    Watched watched{std::vector<Memory>(count), std::vector<WorkerEnd>(count)};
    const model::Network network = network_of(options);
    const MemoryText text = small_text();
    const Subject subject{network, text, options.rows, options.lanes};
    const auto outcomes = world::run_fake_world(
        {.workers = workers,
         .seed = 1,
         .latency_min = latency,
         .latency_max = latency,
         .bytes_per_s = accelerator.link_bytes_per_s,
         .kills = std::move(kills)},
        [&](world::World& world) {
            const auto inner = device::make_reference_device(1);
            const auto paced = device::make_paced_device(
                *inner, pace_of(costs_of(accelerator, network.table())), world.clock());
            const std::size_t w = world.self().index();
            watched.ends[w] =
                run_worker(world, timing == Timing::paced ? *paced : *inner, subject, arrangement,
                           length, 60s, watching == Watching::yes ? &watched.memories[w] : nullptr);
        });
    for (const auto& outcome : outcomes) {
        if (outcome.error && !dies) std::rethrow_exception(outcome.error);
    }
    return watched;
}

engine::RunPlan plan_for(std::int32_t workers, const Arrangement& arrangement) {
    std::vector<WorkerId> all;
    for (std::int32_t w = 0; w < workers; ++w) all.emplace_back(w);
    return plan_of(arrangement, network_of(options).table(), all, options.lanes,
                   length.evaluation_microbatches);
}

template <class What>
std::vector<What> whats(const std::vector<Recorded<What>>& recorded) {
    std::vector<What> list;
    for (const auto& each : recorded) list.push_back(each.what);
    return list;
}

bool is_computed(const Instruction& what) {
    return schedule::is_compute(what.kind) || what.kind == schedule::Kind::update;
}

struct Case {
    std::int32_t workers;
    Arrangement arrangement;
};

void PrintTo(const Case& each, std::ostream* out) { *out << to_text(each.arrangement); }

class Recording : public testing::TestWithParam<Case> {};

TEST_P(Recording, HasEveryInstructionOfTheListOnceAndInOrder) {
    const auto& [workers, arrangement] = GetParam();
    const engine::RunPlan plan = plan_for(workers, arrangement);
    for (const Timing timing : {Timing::reference, Timing::paced}) {
        const Watched watched = run(workers, arrangement, timing);
        for (std::size_t w = 0; w < watched.memories.size(); ++w) {
            const auto& turns = watched.memories[w].turns;
            ASSERT_EQ(turns.size(), 4U);  // two steps, each with an evaluation behind it
            for (std::size_t t = 0; t < turns.size(); ++t) {
                SCOPED_TRACE("worker " + std::to_string(w) + ", turn " + std::to_string(t));
                EXPECT_EQ(turns[t].kind, t % 2 == 0 ? TurnKind::step : TurnKind::evaluation);
                if (t % 2 == 0) {
                    EXPECT_EQ(turns[t].step, Step{static_cast<std::int32_t>(t / 2)});
                }
                EXPECT_TRUE(turns[t].when.has_value());
                EXPECT_EQ(whats(turns[t].instructions),
                          t % 2 == 0 ? plan.step.programs[w] : plan.evaluation->programs[w]);
            }
        }
    }
}

TEST_P(Recording, ChangesNoBitOfTheResult) {
    const auto& [workers, arrangement] = GetParam();
    const Watched watched = run(workers, arrangement, Timing::reference);
    const Watched alone = run(workers, arrangement, Timing::reference, Watching::no);
    for (std::size_t w = 0; w < watched.ends.size(); ++w) {
        EXPECT_EQ(watched.ends[w].end.status, CommStatus::ok);
        EXPECT_EQ(watched.ends[w].trace.losses, alone.ends[w].trace.losses);
        EXPECT_EQ(watched.ends[w].trace.norms, alone.ends[w].trace.norms);
        EXPECT_EQ(watched.ends[w].trace.evaluations, alone.ends[w].trace.evaluations);
        EXPECT_EQ(watched.ends[w].owned, alone.ends[w].owned);
        EXPECT_TRUE(alone.memories[w].turns.empty());
    }
    EXPECT_EQ(watched.ends.front().chunks, alone.ends.front().chunks);
    EXPECT_FALSE(alone.ends.front().chunks.empty());
}

TEST_P(Recording, HasEachMessageAtBothEnds) {
    const auto& [workers, arrangement] = GetParam();
    const Watched watched = run(workers, arrangement, Timing::paced);
    struct Ends {
        std::vector<Recorded<Transfer>> sent;
        std::vector<Recorded<Transfer>> received;
    };
    std::map<std::tuple<std::size_t, WorkerId, WorkerId, std::int32_t>, Ends> messages;
    std::size_t sends = 0;
    for (std::int32_t w = 0; w < workers; ++w) {
        const auto& turns = watched.memories[static_cast<std::size_t>(w)].turns;
        for (std::size_t t = 0; t < turns.size(); ++t) {
            for (const Recorded<Instruction>& each : turns[t].instructions) {
                if (schedule::is_send(each.what.kind)) ++sends;
            }
            for (const Recorded<Transfer>& each : turns[t].transfers) {
                if (each.what.direction == Direction::send) {
                    messages[{t, WorkerId{w}, each.what.peer, each.what.tag}].sent.push_back(each);
                } else {
                    messages[{t, each.what.peer, WorkerId{w}, each.what.tag}].received.push_back(
                        each);
                }
            }
        }
    }
    EXPECT_EQ(messages.size(), sends);
    for (const auto& [key, ends] : messages) {
        ASSERT_EQ(ends.sent.size(), 1U);
        ASSERT_EQ(ends.received.size(), 1U);
        const auto& [sent, received] = std::tie(ends.sent.front(), ends.received.front());
        EXPECT_EQ(sent.what.bytes, received.what.bytes);
        EXPECT_GT(sent.what.bytes, 0);
        EXPECT_LE(sent.when.begin, sent.when.end);
        EXPECT_LE(sent.when.begin + 20us, received.when.end);  // the link's latency
    }
}

template <class What>
void expect_in_a_row(const std::vector<Recorded<What>>& recorded, Interval within) {
    Nanoseconds end = within.begin;
    for (const Recorded<What>& each : recorded) {
        EXPECT_GE(each.when.begin, end);
        EXPECT_GE(each.when.end, each.when.begin);
        end = each.when.end;
    }
    EXPECT_LE(end, within.end);
}

TEST_P(Recording, HasSpansThatDoNotOverlapInARow) {
    const auto& [workers, arrangement] = GetParam();
    for (const Timing timing : {Timing::reference, Timing::paced}) {
        const Watched watched = run(workers, arrangement, timing);
        for (const Memory& memory : watched.memories) {
            for (const RecordedTurn& turn : memory.turns) {
                ASSERT_TRUE(turn.when.has_value());
                expect_in_a_row(turn.waits, *turn.when);
                std::vector<Recorded<Instruction>> computed;
                std::vector<Recorded<Instruction>> others;
                for (const Recorded<Instruction>& each : turn.instructions) {
                    (is_computed(each.what) ? computed : others).push_back(each);
                }
                expect_in_a_row(computed, *turn.when);
                expect_in_a_row(others, *turn.when);
                if (timing == Timing::reference) expect_in_a_row(turn.instructions, *turn.when);
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Recording,
    testing::Values(Case{1, {}}, Case{4, {.depths = {2, 1}}},  // and a spare
                    Case{3, {.depths = {3}, .style = Style::zero_bubble_h1, .owners = 3}},
                    Case{2, {.depths = {2}, .parts = 2, .style = Style::interleaved}},
                    Case{2, {.depths = {2}, .recompute = engine::Recompute::all}}));

TEST(RecordingTimes, AreThoseOfTheDryRunOnAPacedDevice) {
    const Arrangement arrangement{.depths = {4}};
    const Watched watched = run(4, arrangement, Timing::paced);
    const schedule::DryRun dry = dry_run_of(options, arrangement, accelerator, 4);
    for (std::size_t w = 0; w < 4; ++w) {
        const RecordedTurn& turn = watched.memories[w].turns[2];  // the second step
        ASSERT_TRUE(turn.when.has_value());
        ASSERT_EQ(turn.instructions.size(), dry.workers[w].spans.size());
        double busy = 0;
        for (std::size_t i = 0; i < turn.instructions.size(); ++i) {
            const auto& [what, when] = turn.instructions[i];
            if (!schedule::is_compute(what.kind)) continue;
            const auto seconds = [&](Nanoseconds time) {
                return std::chrono::duration<double>(time - turn.when->begin).count();
            };
            busy += seconds(when.end) - seconds(when.begin);
            // A step begins after an agreement, which some learn of 20 microseconds later.
            EXPECT_NEAR(seconds(when.begin), dry.workers[w].spans[i].start_s, 1e-4)
                << to_text(what);
            EXPECT_NEAR(seconds(when.end), dry.workers[w].spans[i].end_s, 1e-4) << to_text(what);
        }
        EXPECT_NEAR(busy, dry.workers[w].busy_s, 1e-6);
        EXPECT_GT(busy, 0.01);
    }
}

TEST(RecordingTimes, NameWhomAWorkerWaitsFor) {
    const Watched watched = run(3, {.depths = {3}}, Timing::paced);
    const RecordedTurn& last = watched.memories[2].turns.front();
    ASSERT_FALSE(last.waits.empty());
    EXPECT_EQ(last.waits.front().what, (Wait{Awaited::message, WorkerId{1}}));
    // Until the first microbatch has come through the two stages before.
    const Interval when = last.waits.front().when;
    EXPECT_GE(when.end - when.begin, 2ms);
    const RecordedTurn& first = watched.memories[0].turns.front();
    for (const Recorded<Wait>& each : first.waits) {
        EXPECT_EQ(each.what.peer.has_value(), each.what.what == Awaited::message);
    }
}

/// On the reference device, if its computations took time on the host.
TEST(RecordingTimes, OfWaitsAndComputationsFitIntoTheStep) {
    const model::Network network = network_of(options);
    const MemoryText text = small_text();
    std::vector<Memory> memories(3);
    const auto outcomes = world::run_fake_world({.workers = 3}, [&](world::World& world) {
        const auto device = device::make_reference_device(1);
        const auto pulse = [&] {
            const Nanoseconds until = world.clock().now() + 1ms;
            while (world.clock().now() < until) world.rest(until);
        };
        Trace trace;
        engine::Worker worker{
            *device,
            network,
            text,
            &text,
            world,
            plan_of({.depths = {3}}, network.table(), world.members(), options.lanes, 3),
            {.seed = 1234,
             .rows = options.rows,
             .optimizer = small_optimizer(),
             .patience = 60s,
             .pulse = pulse,
             .recorder = &memories[world.self().index()]}};
        EXPECT_EQ(engine::train(worker, {.steps = 2, .evaluate_interval = 1}, trace).status,
                  CommStatus::ok);
    });
    for (std::size_t w = 0; w < memories.size(); ++w) {
        if (outcomes[w].error) std::rethrow_exception(outcomes[w].error);
        for (const RecordedTurn& turn : memories[w].turns) {
            ASSERT_TRUE(turn.when.has_value());
            Nanoseconds computed{0};
            Nanoseconds waited{0};
            for (const auto& [what, when] : turn.instructions) {
                if (is_computed(what)) computed += when.end - when.begin;
            }
            for (const auto& [what, when] : turn.waits) waited += when.end - when.begin;
            EXPECT_GT(computed, 0ns);
            EXPECT_GT(waited, 0ns);
            EXPECT_LE(computed + waited, turn.when->end - turn.when->begin);
        }
    }
}

TEST(RecordingLosses, LeaveATurnWithoutAnEnd) {
    const Watched watched = run(2, {.depths = {2}}, Timing::reference, Watching::yes,
                                {{.worker = WorkerId{1}, .call = 60}});
    EXPECT_NE(watched.ends[0].end.status, CommStatus::ok);
    ASSERT_FALSE(watched.memories[0].turns.empty());
    EXPECT_FALSE(watched.memories[0].turns.back().when.has_value());
    // Whoever could not go on has not carried out the instruction.
    const auto& done = watched.memories[0].turns.back().instructions;
    EXPECT_LT(done.size(), plan_for(2, {.depths = {2}}).step.programs[0].size());
}

}  // namespace
}  // namespace rhizome::tests
