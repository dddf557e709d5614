// Runs of the real engine on the world inside one process, in which workers die at chosen places of
// their work. What must hold in each: all faults fired, all who live come to the end of the run,
// and the end is, bit for bit, that of a calm run. If nobody lives, there is nothing to say.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/layouts.hpp"
#include "support/repairing_run.hpp"
#include "world/fake_world.hpp"

namespace rhizome::tests {

struct Layout {
    std::int32_t workers;
    Arrangement arrangement;
    [[nodiscard]] std::string name() const {
        return std::to_string(workers) + " workers, " + to_text(arrangement);
    }
};

/// A worker dies at the n-th place that it passes, counted over its whole life.
struct Death {
    std::int32_t worker;
    std::int64_t place;
};

inline std::vector<Layout> small_layouts() {
    return {{3, {.depths = {2, 1}}}, {3, {.depths = {1, 1, 1}}}, {4, {.depths = {1, 1, 1}}}};
}

inline std::vector<Layout> all_layouts() {
    std::vector<Layout> layouts;
    const std::vector<std::pair<std::int32_t, std::vector<std::int32_t>>> depths{
        {2, {1}},    {2, {2}},    {2, {1, 1}}, {3, {3}}, {3, {2, 1}},   {3, {1, 1, 1}},
        {4, {2, 2}}, {4, {3, 1}}, {4, {2, 1}}, {4, {4}}, {5, {2, 2, 1}}};
    for (const auto& [workers, each] : depths) {
        for (const auto style : {schedule::Style::one_f_one_b, schedule::Style::zero_bubble_h1,
                                 schedule::Style::zero_bubble_h2, schedule::Style::gpipe}) {
            layouts.push_back({workers, {.depths = each, .style = style}});
        }
    }
    layouts.push_back({2, {.depths = {2}, .parts = 2, .style = schedule::Style::interleaved}});
    layouts.push_back({3, {.depths = {2, 1}, .recompute = engine::Recompute::all}});
    layouts.push_back({3, {.depths = {3}, .owners = 3}});
    layouts.push_back({3, {.depths = {3}, .owners = 1}});
    return layouts;
}

/// Those of the contract in one style, with recomputation and without, and two owners. The tyings
/// take turns: over the styles each layout has both of them, with recomputation and without.
/// One worker alone would leave nobody, so it has a spare.
inline std::vector<Layout> contract_layouts(schedule::Style style, model::Tying tying) {
    std::vector<Layout> layouts;
    auto turn = static_cast<std::size_t>(style);
    for (const Pipelines& pipelines : contract_pipelines()) {
        for (std::size_t r = 0; r < recomputes.size(); ++r) {
            if (tyings[(turn + r) % 2] != tying) continue;
            layouts.push_back({std::max(workers_of(pipelines), 2),
                               arrangement_of(pipelines, style, 2, recomputes[r])});
        }
        ++turn;
    }
    return layouts;
}

struct KillTally {
    int trials = 0;
    int deaths = 0;
    int nobody_left = 0;
    std::map<recover::Rung, int> repairs;
    int new_shapes = 0;  // between steps
    int further_attempts = 0;

    [[nodiscard]] std::string text() const {
        std::ostringstream out;
        out << trials << " runs, " << deaths << " deaths";
        for (const auto& [rung, count] : repairs) {
            out << ", " << count << " repairs by rung " << recover::name_of(rung);
        }
        out << ", " << new_shapes << " new shapes between steps, " << further_attempts
            << " further attempts, nobody left in " << nobody_left;
        return out.str();
    }
};

enum class Saves : std::uint8_t { no, every_step };

class Matrix {
  public:
    /// Saves take most of the time of a run.
    explicit Matrix(Saves saves = Saves::no, const SmallOptions& options = lively())
        : saves_{saves}, options_{options} {}

    static constexpr Nanoseconds patience = std::chrono::seconds{2};  // of virtual time
    static constexpr RunLength length{
        .steps = 3, .evaluate_interval = 2, .evaluation_microbatches = 2};

    [[nodiscard]] const KillTally& tally() const { return tally_; }

    /// Places that each worker passes in a calm run.
    [[nodiscard]] std::vector<std::int64_t> places(const Layout& layout) {
        std::vector<std::int64_t> passed;
        run(layout, {}, 7, passed);
        return passed;
    }

    /// One death at every `stride`-th place of every worker. Each begins elsewhere, so large
    /// strides reach all parts of a run.
    void every_place(const Layout& layout, std::int64_t stride) {
        const std::vector<std::int64_t> passed = places(layout);
        for (std::int32_t worker = 0; worker < layout.workers; ++worker) {
            const std::int64_t places = passed[static_cast<std::size_t>(worker)];
            const std::int64_t first = (2 * worker + 1) * stride / (2 * layout.workers) % places;
            for (std::int64_t place = first; place < places; place += stride) {
                expect_calm_end(layout, {{worker, place}}, 7);
                if (testing::Test::HasFailure()) return;
            }
        }
    }

    /// Two deaths of different workers at every `stride`-th pair of places.
    void pairs(const Layout& layout, std::int64_t stride) {
        const std::vector<std::int64_t> passed = places(layout);
        std::int64_t number = 0;
        for (std::int32_t one = 0; one < layout.workers; ++one) {
            for (std::int32_t other = 0; other < one; ++other) {
                for (std::int64_t p = 0; p < passed[static_cast<std::size_t>(one)]; ++p) {
                    for (std::int64_t q = 0; q < passed[static_cast<std::size_t>(other)]; ++q) {
                        if (number++ % stride != 0) continue;
                        expect_calm_end(layout, {{one, p}, {other, q}}, 7);
                        if (testing::Test::HasFailure()) return;
                    }
                }
            }
        }
    }

    /// Three deaths at random places, in random layouts of at least four workers.
    void triples(int count, std::uint64_t seed) {
        std::vector<Layout> layouts = all_layouts();
        std::erase_if(layouts, [](const Layout& each) { return each.workers < 4; });
        std::vector<std::vector<std::int64_t>> passed;
        for (const Layout& layout : layouts) passed.push_back(places(layout));
        std::mt19937_64 random{seed};
        for (int trial = 0; trial < count; ++trial) {
            const std::size_t which = random() % layouts.size();
            std::vector<Death> deaths;
            std::vector<std::int32_t> workers;
            for (std::int32_t w = 0; w < layouts[which].workers; ++w) workers.push_back(w);
            std::shuffle(workers.begin(), workers.end(), random);
            for (std::size_t d = 0; d < 3; ++d) {
                const auto places_of =
                    static_cast<std::uint64_t>(passed[which][static_cast<std::size_t>(workers[d])]);
                deaths.push_back({workers[d], static_cast<std::int64_t>(random() % places_of)});
            }
            expect_calm_end(layouts[which], deaths, seed + static_cast<std::uint64_t>(trial));
            if (testing::Test::HasFailure()) return;
        }
    }

    void expect_calm_end(const Layout& layout, const std::vector<Death>& deaths,
                         std::uint64_t seed) {
        std::string what = layout.name() + ", seed " + std::to_string(seed);
        for (const Death& death : deaths) {
            what += ", worker " + std::to_string(death.worker) + " dies at place " +
                    std::to_string(death.place);
        }
        SCOPED_TRACE(what);
        std::vector<std::int64_t> passed;
        const Trial trial = run(layout, deaths, seed, passed);
        ++tally_.trials;
        int living = 0;
        for (std::size_t w = 0; w < trial.ends.size(); ++w) {
            if (trial.outcomes[w].error) std::rethrow_exception(trial.outcomes[w].error);
            if (trial.outcomes[w].end != world::FakeEnd::returned) {
                ++tally_.deaths;
                continue;
            }
            ++living;
            expect_calm_end(trial.ends[w]);
        }
        // A worker that dies in a repair may have lived longer than in a calm run; one whose place
        // does not come any more, because others died before, lives.
        EXPECT_GT(static_cast<int>(trial.ends.size()) - living, 0);
        tally_.nobody_left += living == 0 ? 1 : 0;
        if (living > 0 && trial.disk) {
            EXPECT_EQ(stored_digests(trial.disk, network_.table(), length.steps), digests_);
        }
    }

  private:
    struct Trial {
        std::vector<SurvivorEnd> ends;
        std::vector<world::FakeOutcome> outcomes;
        std::shared_ptr<state::FakeDisk> disk{};  // if states are saved
    };

    Trial run(const Layout& layout, const std::vector<Death>& deaths, std::uint64_t seed,
              std::vector<std::int64_t>& passed) {
        const Subject subject{
            network_, text_, options_.rows, options_.lanes, options_.threads, options_.make_device};
        Trial trial;
        if (saves_ == Saves::every_step) trial.disk = std::make_shared<state::FakeDisk>();
        trial.ends.resize(static_cast<std::size_t>(layout.workers));
        passed.assign(trial.ends.size(), 0);
        trial.outcomes = world::run_fake_world(
            {.workers = layout.workers, .seed = seed}, [&](world::World& world) {
                const auto self = world.self();
                const engine::Probe probe = [&](const engine::Point&) {
                    const std::int64_t place = passed[self.index()]++;
                    for (const Death& death : deaths) {
                        if (death.worker == self.value() && death.place == place) {
                            world::die_in(world);
                        }
                    }
                };
                trial.ends[self.index()] =
                    run_survivor(world, subject, layout.arrangement, length, patience, probe,
                                 {.disk = trial.disk, .seed = seed});
            });
        return trial;
    }

    void expect_calm_end(const SurvivorEnd& end) {
        EXPECT_EQ(end.end.status, CommStatus::ok);
        EXPECT_EQ(end.end.steps_done, length.steps);
        EXPECT_EQ(end.trace.losses, calm_.trace.losses);
        EXPECT_EQ(end.trace.norms, calm_.trace.norms);
        EXPECT_EQ(end.trace.evaluations, calm_.trace.evaluations);
        for (const auto& [name, hex] : end.owned) EXPECT_EQ(hex, digests_.at(name)) << name;
        if (!end.chunks.empty()) {
            EXPECT_EQ(end.chunks, calm_.chunks);
        }
        for (const engine::RepairRecord& repair : end.repairs) {
            if (repair.between_steps()) {
                ++tally_.new_shapes;
                continue;
            }
            ++tally_.repairs[repair.rung];
            tally_.further_attempts += repair.attempts - 1;
        }
    }

    Saves saves_;
    const SmallOptions options_;
    const model::Network network_ = network_of(options_);
    const MemoryText text_ = small_text();
    const WorkerEnd calm_ = run_judge(options_, length);
    const std::map<std::string, std::string> digests_ = [this] {
        std::map<std::string, std::string> digests;
        for (const auto& [name, hex] : calm_.chunks) digests[name] = hex;
        return digests;
    }();
    KillTally tally_;
};

/// One death at every `stride`-th place of every worker in the contract's layouts of one style.
/// With two owners somebody always goes on, and nobody needs a state file.
inline void expect_calm_ends_of_contract(schedule::Style style, std::int64_t stride) {
    for (const model::Tying tying : tyings) {
        SCOPED_TRACE(tying == model::Tying::tied ? "tied" : "untied");
        Matrix matrix{Saves::no, contract_options(tying)};
        for (const Layout& layout : contract_layouts(style, tying)) {
            const int before = matrix.tally().trials;
            matrix.every_place(layout, stride);
            EXPECT_GE(matrix.tally().trials, before + layout.workers);
            if (testing::Test::HasFailure()) return;
        }
        std::printf("%s\n", matrix.tally().text().c_str());
        EXPECT_EQ(matrix.tally().deaths, matrix.tally().trials);
        EXPECT_EQ(matrix.tally().nobody_left, 0);
        EXPECT_FALSE(matrix.tally().repairs.contains(recover::Rung::state_file));
        EXPECT_FALSE(matrix.tally().repairs.contains(recover::Rung::park));
    }
}

}  // namespace rhizome::tests
