// Beginning together: a mistake is said once, and all end with its exit code.
#include "cli/start_agreement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "world/fake_world.hpp"

namespace rhizome::cli {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

constexpr Nanoseconds patience = 100ms;

using Problems = std::vector<std::optional<UserError>>;

const UserError no_file{ExitCode::bad_data, "no such file"};
const UserError bad_key{ExitCode::bad_config, "no such key"};

std::string text_of(const UserError& error) {
    return std::to_string(static_cast<int>(error.code())) + " " + error.what();
}

/// What each worker throws in a beginning: code and text, or "starts".
std::vector<std::string> ends_of(std::int32_t workers, const std::vector<world::FakeKill>& kills,
                                 const std::function<void(world::World&)>& begin) {
    std::vector<std::string> ends(static_cast<std::size_t>(workers), "gone");
    const auto outcomes =
        world::run_fake_world({.workers = workers, .kills = kills}, [&](world::World& world) {
            try {
                begin(world);
                ends[world.self().index()] = "starts";
            } catch (const UserError& error) {
                ends[world.self().index()] = text_of(error);
            }
        });
    for (const auto& outcome : outcomes) {
        if (outcome.error) std::rethrow_exception(outcome.error);
    }
    return ends;
}

std::vector<std::string> ends_of(const Problems& problems,
                                 const std::vector<world::FakeKill>& kills = {}) {
    return ends_of(static_cast<std::int32_t>(problems.size()), kills, [&](world::World& world) {
        agree_to_start(world, patience, problems[world.self().index()]);
    });
}

TEST(AgreeToStart, LetsAllStartWhenNobodyHasAProblem) {
    EXPECT_THAT(ends_of({{}, {}, {}}), ElementsAre("starts", "starts", "starts"));
    EXPECT_THAT(ends_of({{}}), ElementsAre("starts"));
}

TEST(AgreeToStart, TellsTheProblemOfTheFirstThere) {
    EXPECT_THAT(ends_of({no_file, {}, {}}), ElementsAre("3 no such file", "3 ", "3 "));
    EXPECT_THAT(ends_of({bad_key}), ElementsAre("2 no such key"));
}

TEST(AgreeToStart, TellsTheProblemOfAnotherThere) {
    EXPECT_THAT(ends_of({{}, {}, no_file}), ElementsAre("3 ", "3 ", "3 no such file"));
}

TEST(AgreeToStart, TellsWhatAllHaveOnceByTheFirst) {
    EXPECT_THAT(ends_of({bad_key, bad_key, bad_key}), ElementsAre("2 no such key", "2 ", "2 "));
}

TEST(AgreeToStart, TellsWhatTwoOthersHaveByBoth) {
    EXPECT_THAT(ends_of({{}, no_file, no_file}),
                ElementsAre("3 ", "3 no such file", "3 no such file"));
}

TEST(AgreeToStart, TellsOfOneLossAtMostHoweverManyKindsOfProblemsThereAre) {
    const auto ends = ends_of({{}, no_file, bad_key});
    EXPECT_THAT(ends, ElementsAre("2 ", "3 no such file", "2 no such key"));
}

TEST(AgreeToStart, HandsOnEveryExitCode) {
    for (const ExitCode code :
         {ExitCode::our_fault, ExitCode::bad_config, ExitCode::bad_data, ExitCode::diverged,
          ExitCode::peer_lost, ExitCode::stopped, ExitCode::unfinished}) {
        const std::string number = std::to_string(static_cast<int>(code));
        EXPECT_THAT(ends_of({{}, UserError{code, "so"}}),
                    ElementsAre(number + " ", number + " so"));
        EXPECT_THAT(ends_of({UserError{code, "so"}, {}}),
                    ElementsAre(number + " so", number + " "));
    }
}

TEST(AgreeToStart, EndsWithTheLossOfAWorkerThatIsGone) {
    const std::string lost =
        "5 a worker was lost before the first step (it ended or did not answer), see what it said";
    const std::vector<world::FakeKill> kill{{.worker = WorkerId{1}, .call = 0}};
    EXPECT_THAT(ends_of({{}, {}, {}}, kill), ElementsAre(lost, "gone", lost));
    EXPECT_THAT(ends_of({no_file, {}, {}}, kill), ElementsAre(lost, "gone", lost));
}

TEST(AgreeToStart, WaitsNoLongerThanItsPatience) {
    std::string end;
    const auto outcomes = world::run_fake_world({.workers = 2}, [&](world::World& world) {
        if (world.self() == WorkerId{1}) {
            while (world.clock().now() < 1s) world.rest(1s);
            return;
        }
        try {
            agree_to_start(world, patience, std::nullopt);
        } catch (const UserError& error) {
            end = text_of(error);
            EXPECT_EQ(world.clock().now(), patience);
        }
    });
    EXPECT_THAT(end, testing::StartsWith("5 a worker was lost"));
}

TEST(AgreeToStart, HandsOutWhatWasMadeOrTheReasonWhyNot) {
    std::vector<std::string> ends(2);
    for (const bool fails : {false, true}) {
        const auto outcomes = world::run_fake_world({.workers = 2}, [&](world::World& world) {
            std::string& end = ends[world.self().index()];
            try {
                end = *agree_to_start(world, patience, [&] {
                    if (fails && world.self() == WorkerId{1}) throw no_file;
                    return std::make_unique<std::string>("made");
                });
            } catch (const UserError& error) {
                end = text_of(error);
            }
        });
        for (const auto& outcome : outcomes) EXPECT_EQ(outcome.end, world::FakeEnd::returned);
        if (fails) {
            EXPECT_THAT(ends, ElementsAre("3 ", "3 no such file"));
        } else {
            EXPECT_THAT(ends, ElementsAre("made", "made"));
        }
    }
}

TEST(AgreeToStart, LetsAFaultOfOursThrough) {
    const auto outcomes = world::run_fake_world({.workers = 1}, [&](world::World& world) {
        (void)agree_to_start(world, patience,
                             []() -> std::unique_ptr<int> { throw std::logic_error{"a bug"}; });
    });
    EXPECT_THROW(std::rethrow_exception(outcomes.front().error), std::logic_error);
}

TEST(AgreeOn, TakesWhatIsTheSameEverywhereAndNothingElse) {
    const auto ends = [](const std::vector<std::uint64_t>& numbers) {
        return ends_of(static_cast<std::int32_t>(numbers.size()), {}, [&](world::World& world) {
            agree_on(world, patience, numbers[world.self().index()], bad_key);
        });
    };
    const std::uint64_t number = 0x8123456789abcdef;
    EXPECT_THAT(ends({number, number, number}), ElementsAre("starts", "starts", "starts"));
    for (int bit = 0; bit < 64; ++bit) {
        EXPECT_THAT(ends({number, number ^ std::uint64_t{1} << bit}),
                    ElementsAre("2 no such key", "2 "))
            << bit;
    }
}

}  // namespace
}  // namespace rhizome::cli
