// Every cut of a network whose wires pass stages by: whatever crosses a border crosses it with its
// gradient, whoever reads it, and the bits are those of the judge.
#include <gtest/gtest.h>

#include "support/engine_run.hpp"
#include "support/wire_network.hpp"
#include "world/fake_world.hpp"

namespace rhizome::tests {
namespace {

using engine::Recompute;
using schedule::Style;
using wires::MemoryEnds;

constexpr std::int32_t layers = 6;
constexpr RunLength length{.steps = 4, .evaluate_interval = 2, .evaluation_microbatches = 3};

/// All ways to cut the layers into that many stages, as texts.
std::vector<std::string> cuts_into(std::int32_t stages) {
    std::vector<std::string> cuts;
    for (std::uint32_t borders = 0; borders < 1U << (layers - 1); ++borders) {
        std::string cut;
        std::int32_t found = 1;
        for (std::int32_t layer = 1; layer < layers; ++layer) {
            if ((borders >> (layer - 1) & 1U) == 0) continue;
            cut += (cut.empty() ? "" : ",") + std::to_string(layer);
            ++found;
        }
        if (found == stages) cuts.push_back(cut);
    }
    return cuts;
}

class EveryCut : public testing::TestWithParam<std::tuple<Recompute, MemoryEnds>> {
  protected:
    EveryCut() {
        // Weights of zero would hide everything.
        for (const double norm : judged_.trace.norms) EXPECT_GT(norm, 1e-3);
    }

    void expect_bits_of_judge(Arrangement arrangement, std::int32_t spares = 0) {
        arrangement.recompute = std::get<Recompute>(GetParam());
        SCOPED_TRACE(to_text(arrangement));
        const std::int32_t workers = arrangement.depths.front() + spares;
        std::vector<WorkerEnd> ends(static_cast<std::size_t>(workers));
        const auto outcomes =
            world::run_fake_world({.workers = workers, .seed = ++seed_}, [&](world::World& world) {
                ends[world.self().index()] = run_worker(world, subject_, arrangement, length);
            });
        for (std::size_t w = 0; w < ends.size(); ++w) {
            if (outcomes[w].error) std::rethrow_exception(outcomes[w].error);
            EXPECT_EQ(ends[w].end.status, CommStatus::ok);
            EXPECT_EQ(ends[w].trace.losses, judged_.trace.losses);
            EXPECT_EQ(ends[w].trace.norms, judged_.trace.norms);
            EXPECT_EQ(ends[w].trace.evaluations, judged_.trace.evaluations);
        }
        EXPECT_EQ(ends.front().chunks, judged_.chunks);
    }

  private:
    model::Network network_ = wires::wire_network(std::get<MemoryEnds>(GetParam()));
    MemoryText text_ = small_text();
    Subject subject_{network_, text_, wires::rows, {4, 2}};
    WorkerEnd judged_ = run_judge(subject_, length);
    std::uint64_t seed_ = 0;
};

INSTANTIATE_TEST_SUITE_P(
    Modes, EveryCut,
    testing::Combine(testing::Values(Recompute::none, Recompute::all),
                     testing::Values(MemoryEnds::with_its_last_reader,
                                     MemoryEnds::with_the_network)),
    [](const auto& each) {
        return std::string{std::get<Recompute>(each.param) == Recompute::all ? "recomputed"
                                                                             : "kept"} +
               (std::get<MemoryEnds>(each.param) == MemoryEnds::with_the_network ? "_unread" : "");
    });

TEST_P(EveryCut, HasTheBitsOfTheJudgeWithAStagePerWorker) {
    for (std::int32_t stages = 1; stages <= layers; ++stages) {
        for (const std::string& cut : cuts_into(stages)) {
            for (const Style style : {Style::one_f_one_b, Style::zero_bubble_h1}) {
                expect_bits_of_judge({.depths = {stages}, .cut = cut, .style = style});
            }
            if (HasFailure()) return;
        }
    }
}

TEST_P(EveryCut, HasTheBitsOfTheJudgeWithAllStagesOnOneWorker) {
    for (std::int32_t stages = 1; stages <= layers; ++stages) {
        for (const std::string& cut : cuts_into(stages)) {
            expect_bits_of_judge(
                {.depths = {1}, .parts = stages, .cut = cut, .style = Style::interleaved});
            if (HasFailure()) return;
        }
    }
}

TEST_P(EveryCut, HasTheBitsOfTheJudgeWithStagesDealtOutToTwoWorkers) {
    for (const std::int32_t parts : {2, 3}) {
        for (const std::string& cut : cuts_into(2 * parts)) {
            expect_bits_of_judge(
                {.depths = {2}, .parts = parts, .cut = cut, .style = Style::interleaved},
                parts - 2);
            if (HasFailure()) return;
        }
    }
}

TEST(Cuts, AreAllThereIs) {
    const std::vector<std::size_t> expected{1, 5, 10, 10, 5, 1};
    for (std::int32_t stages = 1; stages <= layers; ++stages) {
        EXPECT_EQ(cuts_into(stages).size(), expected[static_cast<std::size_t>(stages - 1)]);
    }
}

}  // namespace
}  // namespace rhizome::tests
