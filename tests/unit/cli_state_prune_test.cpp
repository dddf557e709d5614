// Which states a rule removes when some of them are damaged.
#include "cli/state_prune.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "state/fake_disk.hpp"
#include "support/sample_state.hpp"

namespace rhizome::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

enum class Is : std::uint8_t { whole, damaged };

std::vector<ListedState> listed(const std::vector<std::pair<std::int32_t, Is>>& states) {
    std::vector<ListedState> list;
    for (const auto& [steps, is] : states) {
        list.push_back({.path = "states/" + state::state_name(steps),
                        .steps = steps,
                        .problem = is == Is::whole ? "" : "cut off"});
    }
    return list;
}

std::vector<std::int32_t> steps_of(const std::vector<ListedState>& states) {
    std::vector<std::int32_t> steps;
    for (const ListedState& each : states) steps.push_back(each.steps);
    return steps;
}

TEST(PlanPrune, KeepsTheNewestAndMultiples) {
    const auto states = listed({{1, Is::whole}, {10, Is::whole}, {15, Is::whole}, {21, Is::whole}});
    const PruneReport report = plan_prune(states, {.last = 1, .every = 10});
    EXPECT_THAT(steps_of(report.removed), ElementsAre(1, 15));
    EXPECT_THAT(steps_of(report.kept), ElementsAre(10, 21));
    EXPECT_THAT(report.damaged, IsEmpty());
}

TEST(PlanPrune, DoesNotCountDamagedOnes) {
    const auto states = listed(
        {{1, Is::whole}, {2, Is::damaged}, {3, Is::whole}, {4, Is::damaged}, {5, Is::damaged}});
    const PruneReport report = plan_prune(states, {.last = 1});
    EXPECT_THAT(steps_of(report.removed), ElementsAre(1));
    EXPECT_THAT(steps_of(report.kept), ElementsAre(3));
    EXPECT_THAT(steps_of(report.damaged), ElementsAre(2, 4, 5));
}

TEST(PlanPrune, RemovesNothingWhereAllIsDamagedOrFew) {
    EXPECT_THAT(plan_prune(listed({{1, Is::damaged}, {2, Is::damaged}}), {.last = 1}).removed,
                IsEmpty());
    EXPECT_THAT(plan_prune(listed({{1, Is::whole}, {2, Is::whole}}), {.last = 2}).removed,
                IsEmpty());
    EXPECT_THAT(plan_prune({}, {.last = 1}).removed, IsEmpty());
}

class PruneStates : public ::testing::Test {
  protected:
    std::shared_ptr<state::FakeDisk> disk = std::make_shared<state::FakeDisk>();

    void write(std::int32_t steps) { state::write_sample_state(*disk, "/run/states", steps, 2); }
    std::vector<std::int32_t> left() {
        std::vector<std::int32_t> steps;
        for (const auto& found : state::find_states(*disk, "/run/states")) {
            steps.insert(steps.begin(), found.steps);
        }
        return steps;
    }
};

TEST_F(PruneStates, LeavesTheNewestWholeOneWhateverIsDamaged) {
    for (const std::int32_t steps : {1, 2, 3, 4}) write(steps);
    disk->set_content("/run/states/step-00000004/index.h5", {});
    disk->remove_all("/run/states/step-00000003/share-00001.h5");
    const PruneReport report = prune_states(disk, "/run", {.last = 1}, Removal::real);
    EXPECT_THAT(steps_of(report.removed), ElementsAre(1));
    EXPECT_THAT(left(), ElementsAre(2, 3, 4));
    EXPECT_TRUE(state::verify_state(disk, "/run/states/step-00000002").faults.empty());
}

TEST_F(PruneStates, OnlyTellsInADryRun) {
    for (const std::int32_t steps : {1, 2, 3}) write(steps);
    const auto files = disk->files();
    const PruneReport report = prune_states(disk, "/run/states", {.last = 1}, Removal::told_only);
    EXPECT_THAT(steps_of(report.removed), ElementsAre(1, 2));
    EXPECT_TRUE(report.dry_run);
    EXPECT_EQ(disk->files(), files);
}

TEST_F(PruneStates, RefusesASingleState) {
    write(1);
    try {
        (void)prune_states(disk, "/run/states/step-00000001", {.last = 1}, Removal::real);
        FAIL();
    } catch (const ConfigError& error) {
        EXPECT_THAT(error.what(), HasSubstr("is one state"));
    }
}

}  // namespace
}  // namespace rhizome::cli
