// Records of epochs in a run's folder: of two groups that each think the other one dead, one goes
// on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "unit/world_run_home.hpp"
#include "world/run_folder.hpp"

namespace rhizome::world {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

const std::vector<WorkerId> some{WorkerId{0}, WorkerId{2}};
const std::vector<WorkerId> others{WorkerId{1}, WorkerId{3}};

TEST_F(RunFolderTest, AnEpochBelongsToThoseWhoOpenItFirst) {
    const RunFolder folder = RunFolder::make(place("run"));
    EXPECT_EQ(folder.open_epoch(Epoch{1}, some), std::nullopt);
    EXPECT_EQ(folder.open_epoch(Epoch{1}, some), std::nullopt);  // another member of it
    EXPECT_THAT(folder.open_epoch(Epoch{1}, others),
                Optional(HasSubstr("was opened by others: members 0 2")));
    EXPECT_EQ(read("run/epochs/1"), "members 0 2\n");
    EXPECT_EQ(folder.open_epoch(Epoch{2}, {WorkerId{2}}), std::nullopt);
    EXPECT_EQ(names_in("run/epochs"), (std::vector<std::string>{"1", "2"}));
}

TEST_F(RunFolderTest, AnEpochHasOneOwnerHoweverManyOpenItAtOnce) {
    const RunFolder folder = RunFolder::make(place("run"));
    for (std::int32_t epoch = 1; epoch <= 20; ++epoch) {
        std::atomic<int> ours{0};
        std::atomic<int> theirs{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < 8; ++i) {
            threads.emplace_back([&, i] {
                const auto& members = i % 2 == 0 ? some : others;
                if (!folder.open_epoch(Epoch{epoch}, members)) ++(i % 2 == 0 ? ours : theirs);
            });
        }
        for (std::thread& thread : threads) thread.join();
        EXPECT_TRUE((ours == 4 && theirs == 0) || (ours == 0 && theirs == 4));
    }
}

TEST_F(RunFolderTest, WithoutAFolderThereIsNoEpoch) {
    const RunFolder folder = RunFolder::make(place("run"));
    fs::remove_all(place("run"));
    EXPECT_THAT(folder.open_epoch(Epoch{1}, some), Optional(HasSubstr("cannot be opened in")));
}

TEST_F(RunFolderTest, TellsWhoHasLeftForWantOfAnEpoch) {
    const RunFolder folder = RunFolder::make(place("run"));
    EXPECT_EQ(folder.left_behind(), std::nullopt);
    ASSERT_FALSE(folder.leave(Epoch{0}, WorkerId{1}, "nobody answered"));
    EXPECT_THAT(folder.left_behind(), Optional(HasSubstr("nobody answered")));
    // The others have gone on without it.
    ASSERT_EQ(folder.open_epoch(Epoch{1}, some), std::nullopt);
    EXPECT_EQ(folder.left_behind(), std::nullopt);
    ASSERT_FALSE(folder.leave(Epoch{1}, WorkerId{0}, "nor then"));
    EXPECT_THAT(folder.left_behind(), Optional(HasSubstr("nor then")));
}

TEST_F(RunFolderTest, ANewRunBeginsWithoutEpochs) {
    {
        const RunFolder folder = RunFolder::make(place("run"));
        ASSERT_EQ(folder.open_epoch(Epoch{1}, some), std::nullopt);
    }
    const RunFolder next = RunFolder::make(place("run"));
    EXPECT_TRUE(next.taken_over());
    EXPECT_EQ(next.open_epoch(Epoch{1}, others), std::nullopt);
}

}  // namespace
}  // namespace rhizome::world
