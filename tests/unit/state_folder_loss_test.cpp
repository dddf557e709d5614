// States on a disk that loses power, at any operation: what is found is whole, and what was saved
// is found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <set>

#include "state/fake_disk.hpp"
#include "support/sample_state.hpp"

namespace rhizome::state {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

const std::string folder = "runs/one";

/// Steps of the states that are found, newest first; each is whole.
std::vector<std::int32_t> whole_states(const std::shared_ptr<FakeDisk>& disk) {
    std::vector<std::int32_t> found;
    for (const FoundState& each : find_states(*disk, folder)) {
        for (const Fault& fault : verify_state(disk, each.path).faults) {
            ADD_FAILURE() << each.path << ": " << fault.file << ": " << fault.place << ": "
                          << fault.reason;
        }
        found.push_back(each.steps);
    }
    return found;
}

/// What had returned before the disk stopped, in this order.
enum class Done : std::uint8_t { nothing, first, replaced, second, removed };

Done save_some(FakeDisk& disk) {
    const std::array<std::function<void()>, 4> saves{
        [&] { static_cast<void>(write_sample_state(disk, folder, 1, 2)); },
        [&] { static_cast<void>(write_sample_state(disk, folder, 1, 1)); },
        [&] { static_cast<void>(write_sample_state(disk, folder, 2, 2)); },
        [&] { remove_state(disk, {folder + "/" + state_name(1), 1}); }};
    std::size_t done = 0;
    try {
        for (; done < saves.size(); ++done) saves.at(done)();
    } catch (const FileError&) {
        EXPECT_TRUE(disk.fired());
    }
    return static_cast<Done>(done);
}

/// The steps of the state that must be found then. A state that is being replaced may have its
/// hidden name only.
std::optional<std::int32_t> surely_there(Done done) {
    if (done == Done::nothing || done == Done::first) return std::nullopt;
    return done == Done::replaced ? 1 : 2;
}

TEST(States, AreWholeAfterALossOfPowerAtAnyOperation) {
    FakeDisk calm;
    ASSERT_EQ(save_some(calm), Done::removed);
    std::set<Done> ends;
    std::set<std::vector<std::int32_t>> outcomes;
    for (std::int64_t n = 0; n <= calm.operations(); ++n) {
        FakeDisk disk;
        disk.stop_at(n);
        const Done done = save_some(disk);
        ends.insert(done);
        for (std::uint64_t seed = 0; seed < 4; ++seed) {
            SCOPED_TRACE("operation " + std::to_string(n) + ", seed " + std::to_string(seed));
            const auto found =
                whole_states(disk.after_power_loss(1000 * seed + static_cast<std::uint64_t>(n)));
            outcomes.insert(found);
            const auto surely = surely_there(done);
            EXPECT_TRUE(!surely || std::count(found.begin(), found.end(), *surely) == 1);
            EXPECT_TRUE(done != Done::removed || found.size() == 1);
        }
    }
    EXPECT_EQ(ends.size(), 5U);
    EXPECT_THAT(outcomes, Contains(IsEmpty()));
    EXPECT_THAT(outcomes, Contains(ElementsAre(2, 1)));
}

/// The removal alone, from every draw of a large number.
TEST(States, AreWholeOrGoneWhenPowerIsLostWhileTheyAreRemoved) {
    int found_whole = 0;
    int gone = 0;
    for (std::int64_t n = 0; n <= 4; ++n) {
        FakeDisk disk;
        static_cast<void>(write_sample_state(disk, folder, 1, 2));
        disk.stop_at(disk.operations() + n);
        try {
            remove_state(disk, {folder + "/" + state_name(1), 1});
            EXPECT_EQ(n, 4);
        } catch (const FileError&) {
            EXPECT_LT(n, 4);
        }
        for (std::uint64_t seed = 0; seed < 100; ++seed) {
            const auto left = disk.after_power_loss(seed);
            if (find_states(*left, folder).empty()) {
                ++gone;
            } else {
                EXPECT_EQ(left->list(folder + "/" + state_name(1)).size(), 3U);
                ++found_whole;
            }
        }
    }
    EXPECT_GT(found_whole, 200);  // before the rename, and at the sync after it
    EXPECT_GT(gone, 200);
}

}  // namespace
}  // namespace rhizome::state
