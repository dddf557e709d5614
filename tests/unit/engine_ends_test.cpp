// Ends before the last step that are nobody's loss: numbers that are not finite, and somebody who
// asks to stop. All workers come to the same end after the same step.
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/engine_run.hpp"
#include "world/fake_world.hpp"

namespace rhizome::tests {
namespace {

using engine::StepEnd;
using engine::Worker;
using testing::HasSubstr;

constexpr std::int32_t workers = 3;

const SmallOptions options{.tying = model::Tying::tied,
                           .dropout = 0.1,
                           .dtype = DType::f32,
                           .rows = 1,
                           .lanes = {6, 3},
                           .chunk_elements = 60};

class Ends : public testing::TestWithParam<Arrangement> {
  protected:
    using Body = std::function<void(world::World&, Worker&)>;

    void without_evaluation() { evaluation_microbatches_ = 0; }

    void run(const Body& body, model::OptimizerConfig optimizer = small_optimizer()) {
        const auto outcomes =
            world::run_fake_world({.workers = workers, .seed = 5}, [&](world::World& world) {
                const auto device = device::make_reference_device(1);
                const engine::RunPlan plan = plan_of(GetParam(), network_.table(), world.members(),
                                                     options.lanes, evaluation_microbatches_);
                Worker worker{*device,
                              network_,
                              text_,
                              &text_,
                              world,
                              plan,
                              {.seed = 1234,
                               .rows = options.rows,
                               .optimizer = optimizer,
                               .patience = std::chrono::seconds{60}}};
                body(world, worker);
            });
        for (const auto& outcome : outcomes) {
            if (outcome.error) std::rethrow_exception(outcome.error);
            EXPECT_EQ(outcome.unreceived, 0);
        }
    }
    [[nodiscard]] std::vector<engine::ChunkDigest> state(Worker& worker) const {
        return owned_digests(worker, network_.table());
    }

  private:
    model::Network network_ = network_of(options);
    MemoryText text_ = small_text();
    std::int32_t evaluation_microbatches_ = 2;
};

INSTANTIATE_TEST_SUITE_P(Shapes, Ends,
                         testing::Values(Arrangement{.depths = {3}},
                                         Arrangement{.depths = {1, 1, 1}, .owners = 3},
                                         Arrangement{.depths = {2}, .owners = 1},
                                         Arrangement{.depths = {2, 1},
                                                     .style = schedule::Style::zero_bubble_h1,
                                                     .owners = 1}));

/// What a call throws as a DivergedError; "" if it does not.
template <class Call>
std::string divergence(const Call& call) {
    try {
        call();
    } catch (const DivergedError& error) {
        EXPECT_EQ(error.code(), ExitCode::diverged);
        return error.what();
    }
    return "";
}

/// Everything held and owned here.
void poison(Worker& worker, const device::Tensor& tensor) {
    const std::vector<float> values(static_cast<std::size_t>(tensor.elements()),
                                    std::numeric_limits<float>::quiet_NaN());
    worker.stream().upload(tensor, std::as_bytes(std::span{values}));
    worker.stream().synchronize();
}

TEST_P(Ends, OfAStepThatDivergesAreTheSameForAllAndLeaveTheStateAlone) {
    model::OptimizerConfig optimizer = small_optimizer();
    optimizer.learning_rate = 1e30;  // finite after the first step, and useless
    std::vector<std::string> texts(workers);
    run(
        [&](world::World& world, Worker& worker) {
            ASSERT_EQ(worker.run_step(Step{0}, engine::vote::all).status, CommStatus::ok);
            ASSERT_EQ(worker.committed_steps(), 1);
            const auto before = state(worker);
            texts[world.self().index()] =
                divergence([&] { (void)worker.run_step(Step{1}, engine::vote::all); });
            EXPECT_EQ(state(worker), before);
            EXPECT_EQ(worker.committed_steps(), 1);
        },
        optimizer);
    EXPECT_THAT(texts[0], HasSubstr("training diverged after 1 steps"));
    EXPECT_THAT(texts[0], HasSubstr("optimizer.learning_rate"));
    EXPECT_THAT(texts, testing::Each(texts[0]));
}

TEST_P(Ends, OfAStepAreDivergenceForAllWhereOneWorkersWeightsAreNot) {
    std::vector<std::string> texts(workers);
    run([&](world::World& world, Worker& worker) {
        const bool first = world.self() == WorkerId{0};
        if (first) poison(worker, worker.state().parameters().whole());
        const auto before = state(worker);
        texts[world.self().index()] =
            divergence([&] { (void)worker.run_step(Step{0}, engine::vote::all); });
        EXPECT_EQ(state(worker), before);
        EXPECT_EQ(worker.committed_steps(), 0);
    });
    EXPECT_THAT(texts, testing::Each(HasSubstr("training diverged after 0 steps")));
}

TEST_P(Ends, OfAnEvaluationAreDivergenceForAll) {
    std::vector<std::string> texts(workers);
    run([&](world::World& world, Worker& worker) {
        if (world.self() == WorkerId{1}) poison(worker, worker.state().parameters().whole());
        texts[world.self().index()] = divergence([&] { (void)worker.evaluate(); });
    });
    EXPECT_THAT(texts, testing::Each(HasSubstr("the validation loss is")));
}

TEST_P(Ends, OfARunAreDivergenceForAllWhereTheLastUpdateDidIt) {
    std::vector<std::string> texts(workers);
    run([&](world::World& world, Worker& worker) {
        ASSERT_EQ(worker.expect_finite_parameters(), CommStatus::ok);
        const auto& owned = worker.state().owned();
        if (world.self() == WorkerId{1} && !owned.empty()) {
            poison(worker, owned.front().parameter.slice(0, 1));
        }
        texts[world.self().index()] =
            divergence([&] { ASSERT_EQ(worker.expect_finite_parameters(), CommStatus::ok); });
    });
    EXPECT_THAT(texts, testing::Each(HasSubstr("a parameter is not finite")));
}

TEST_P(Ends, OfARunAreDivergenceForAllWhereNoStepComesAfterTheUpdate) {
    model::OptimizerConfig optimizer = small_optimizer();
    optimizer.learning_rate = 1e300;  // more than a float can hold
    without_evaluation();
    std::vector<std::string> texts(workers);
    run(
        [&](world::World& world, Worker& worker) {
            Trace trace;
            texts[world.self().index()] = divergence(
                [&] { (void)engine::train(worker, {.steps = 1, .evaluate_interval = 0}, trace); });
            EXPECT_EQ(trace.losses.size(), 1U);
        },
        optimizer);
    EXPECT_THAT(texts, testing::Each(HasSubstr("a parameter is not finite")));
}

TEST_P(Ends, OfARunThatOneWorkerStopsAreAfterTheSameStepForAll) {
    for (std::int32_t asking = 0; asking < workers; ++asking) {
        SCOPED_TRACE("worker " + std::to_string(asking) + " asks");
        run([&](world::World& world, Worker& worker) {
            Trace trace;
            std::int32_t looks = 0;
            const auto asked = [&] { return ++looks == 3 && world.self() == WorkerId{asking}; };
            const engine::TrainEnd end = engine::train(
                worker, {.steps = 6, .evaluate_interval = 2, .stop_asked = asked}, trace);
            EXPECT_EQ(end.status, CommStatus::ok);
            EXPECT_EQ(end.steps_done, 3);
            EXPECT_TRUE(end.stopped);
            EXPECT_EQ(worker.committed_steps(), 3);
            EXPECT_EQ(trace.losses.size(), 3U);
            EXPECT_EQ(trace.evaluations.size(), 1U);
        });
    }
}

TEST_P(Ends, OfARunThatIsStoppedInItsLastStepAreThoseOfAnyRun) {
    run([&](world::World& world, Worker& worker) {
        Trace trace;
        std::int32_t looks = 0;
        const auto asked = [&] { return ++looks == 2 && world.self() == WorkerId{2}; };
        const engine::TrainEnd end =
            engine::train(worker, {.steps = 2, .evaluate_interval = 0, .stop_asked = asked}, trace);
        EXPECT_EQ(end.status, CommStatus::ok);
        EXPECT_EQ(end.steps_done, 2);
        EXPECT_FALSE(end.stopped);
        EXPECT_EQ(trace.evaluations.size(), 1U);
    });
}

TEST_P(Ends, OfAStepSayWhetherAllGoOn) {
    run([&](world::World& world, Worker& worker) {
        EXPECT_EQ(worker.run_step(Step{0}, engine::vote::all).votes, engine::vote::all);
        const StepEnd asked = worker.run_step(
            Step{1}, world.self() == WorkerId{1} ? engine::vote::all & ~engine::vote::go_on
                                                 : engine::vote::all);
        EXPECT_EQ(asked.status, CommStatus::ok);
        EXPECT_EQ(asked.votes, engine::vote::all & ~engine::vote::go_on);
        EXPECT_EQ(worker.run_step(Step{2}, engine::vote::all).votes, engine::vote::all);
    });
}

/// Writes one number everywhere.
void fill(Worker& worker, TensorRef tensor, double value) {
    const device::Tensor to = worker.state().parameters().at(tensor);
    const std::vector<double> values(static_cast<std::size_t>(to.elements()), value);
    worker.stream().upload(to, std::as_bytes(std::span{values}));
    worker.stream().synchronize();
}

TEST(Divergence, IsAlsoThatOfTheGradientAlone) {
    const SmallOptions large{.tying = model::Tying::untied};
    const model::Network network = network_of(large);
    const MemoryText text = small_text();
    const auto world = world::make_solo_world();
    const auto device = device::make_reference_device(1);
    const engine::RunPlan plan = plan_of({}, network.table(), world->members(), large.lanes, 0);
    Worker worker{*device,
                  network,
                  text,
                  nullptr,
                  *world,
                  plan,
                  {.seed = 1,
                   .rows = large.rows,
                   .optimizer = small_optimizer(),
                   .patience = std::chrono::seconds{60}}};
    // Logits, and so the loss, stay what they are; the square of the head's gradient does not.
    const std::int32_t layers = network.size();
    fill(worker, {LayerId{layers - 2}, 0}, 1e200);
    fill(worker, {LayerId{layers - 1}, 0}, 1e-200);
    const auto before = owned_digests(worker, network.table());
    const std::string text_of_it =
        divergence([&] { (void)worker.run_step(Step{0}, engine::vote::all); });
    EXPECT_THAT(text_of_it, HasSubstr("gradient norm inf"));
    EXPECT_THAT(text_of_it, testing::Not(HasSubstr("loss inf")));
    EXPECT_THAT(text_of_it, testing::Not(HasSubstr("loss nan")));
    EXPECT_EQ(owned_digests(worker, network.table()), before);
}

}  // namespace
}  // namespace rhizome::tests
