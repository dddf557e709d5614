// What paths mean, and how states look without their values.
#include "cli/state_places.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "state/fake_disk.hpp"
#include "support/sample_state.hpp"

namespace rhizome::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StatePlaces : public ::testing::Test {
  protected:
    std::shared_ptr<state::FakeDisk> disk = std::make_shared<state::FakeDisk>();
    std::vector<std::string> said;
    Log log{[this](std::string_view line) { said.emplace_back(line); }};

    std::string write(std::int32_t steps, std::int32_t writers = 2) {
        return state::write_sample_state(*disk, "/run/states", steps, writers);
    }
    std::string refusal(const std::string& path) {
        try {
            (void)find_state(disk, path, log);
        } catch (const UserError& error) {
            return error.what();
        }
        ADD_FAILURE() << "not refused";
        return {};
    }
};

TEST_F(StatePlaces, StatesAreFoundFromAboveAndByThemselves) {
    const std::string path = write(7);
    EXPECT_EQ(find_place(*disk, path).kind, Place::Kind::state);
    EXPECT_EQ(find_place(*disk, path + "//").path, path);
    for (const std::string above : {"/run", "/run/", "/run/states", "/run/states/"}) {
        const Place place = find_place(*disk, above);
        EXPECT_EQ(place.kind, Place::Kind::states);
        EXPECT_EQ(place.path, "/run/states");
    }
}

TEST_F(StatePlaces, TheRunAboveItsStatesIsKnown) {
    write(7);
    EXPECT_EQ(find_place(*disk, "/run").run, "/run");
    EXPECT_EQ(find_place(*disk, "/run/states").run, "");
    disk->make_folder("/run/processes");
    EXPECT_EQ(find_place(*disk, "/run/states").run, "/run");
}

TEST_F(StatePlaces, ARunThatHasSavedNothingIsARunAllTheSame) {
    disk->make_folder("/run/processes");
    EXPECT_EQ(find_place(*disk, "/run").path, "/run/states");
    EXPECT_THAT(refusal("/run"), HasSubstr("there is no state in it"));
}

TEST_F(StatePlaces, AStateUnderAnotherNameIsOne) {
    disk->rename(write(7), "/run/states/kept");
    EXPECT_EQ(find_state(disk, "/run/states/kept", log), "/run/states/kept");
    EXPECT_EQ(look_at_state(disk, "/run/states/kept").steps, 7);
    EXPECT_EQ(look_at_state(disk, "/run/states/kept").problem, "");
}

TEST_F(StatePlaces, TheNewestWholeOneIsTakenAndSaid) {
    write(1);
    const std::string second = write(2);
    write(3);
    disk->set_content("/run/states/step-00000003/index.h5", {});
    EXPECT_EQ(find_state(disk, "/run", log), second);
    ASSERT_EQ(said.size(), 2U);
    EXPECT_THAT(said[0], HasSubstr("step-00000003 (index.h5"));
    EXPECT_EQ(said[1], "state " + second + ", the newest whole one");
}

TEST_F(StatePlaces, NothingWholeIsAnError) {
    write(1);
    disk->set_content("/run/states/step-00000001/share-00000.h5", {});
    EXPECT_THAT(refusal("/run"), HasSubstr("no state in it is whole"));
}

TEST_F(StatePlaces, OtherThingsAreRefusedWithAHint) {
    write(1);
    disk->set_content("/run/model.safetensors", {});
    disk->make_folder("/empty");
    EXPECT_THAT(refusal("/nowhere"), HasSubstr("there is nothing of that name"));
    EXPECT_THAT(refusal("/empty"), HasSubstr("neither a state nor a folder of states"));
    EXPECT_THAT(refusal("/run/model.safetensors"), HasSubstr("rhizome-state import"));
    EXPECT_THAT(refusal("/run/states/step-00000001/index.h5"),
                HasSubstr("the folder that it is in"));
}

TEST_F(StatePlaces, ALookFindsWhatIsWrongWithStructureAndNames) {
    const std::string path = write(1, 3);
    EXPECT_EQ(look_at_state(disk, path).problem, "");
    EXPECT_GT(look_at_state(disk, path).bytes, 0);
    disk->remove_all(path + "/share-00002.h5");
    EXPECT_EQ(look_at_state(disk, path).problem, "share-00002.h5: file: is missing");

    const std::string renamed = "/run/states/step-00000009";
    disk->rename(write(2), renamed);
    EXPECT_THAT(look_at_state(disk, renamed).problem,
                testing::StartsWith("index.h5: name: has 2 steps in it"));
}

TEST_F(StatePlaces, ALookSeesAForeignShareThatHasNoChunks) {
    // More writers than chunks.
    const state::StoredTable table = state::sample_table();
    const auto writers = static_cast<std::int32_t>(table.all_chunks().size()) + 1;
    const std::string path = write(1, writers);
    EXPECT_EQ(look_at_state(disk, path).problem, "");
    const std::string last = path + "/" + state::share_name(writers - 1);
    disk->remove_all(last);
    (void)state::write_share(*disk, last, table, /*steps=*/2, writers - 1, {});
    EXPECT_THAT(look_at_state(disk, path).problem, HasSubstr("not the one that the index means"));
}

TEST_F(StatePlaces, StatesAreListedBySteps) {
    for (const std::int32_t steps : {20, 3, 100}) write(steps);
    std::vector<std::int32_t> steps;
    for (const ListedState& each : look_at_states(disk, "/run/states")) steps.push_back(each.steps);
    EXPECT_THAT(steps, ElementsAre(3, 20, 100));
}

TEST(SplitPath, GivesFolderAndName) {
    EXPECT_THAT(split_path("a/b/"), ::testing::Pair("a", "b"));
    EXPECT_THAT(split_path("a"), ::testing::Pair(".", "a"));
    EXPECT_THAT(split_path("/a"), ::testing::Pair("/", "a"));
}

}  // namespace
}  // namespace rhizome::cli
