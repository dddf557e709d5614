// Faults that are meant to happen: their text, and that each strikes where it says, once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/fault_plan.hpp"

namespace rhizome::engine {
namespace {

using schedule::Kind;
using testing::HasSubstr;

Point instruction(std::int32_t step, Kind kind, std::int32_t index) {
    return {.phase = Phase::step, .step = step, .kind = kind, .index = index};
}

TEST(Faults, StrikeWhereTheyAreMeantToOnce) {
    const ParsedFaults parsed = parse_faults("kill@2/12/F#3,stop@2/*/move,exit@1/5/evaluation:C");
    ASSERT_EQ(parsed.problem, "");
    FaultWatch watch{parsed.plan, WorkerId{2}};
    EXPECT_EQ(watch.strikes(instruction(12, Kind::forward, 2), 3), std::nullopt);
    EXPECT_EQ(watch.strikes(instruction(11, Kind::forward, 3), 3), std::nullopt);
    EXPECT_EQ(watch.strikes(instruction(12, Kind::backward, 3), 3), std::nullopt);
    EXPECT_EQ(watch.strikes(instruction(12, Kind::forward, 3), 3), FaultKind::kill);
    EXPECT_EQ(watch.strikes(instruction(12, Kind::forward, 3), 3), std::nullopt);
    EXPECT_EQ(watch.strikes({.phase = Phase::agree, .step = 4}, 3), std::nullopt);
    EXPECT_EQ(watch.strikes({.phase = Phase::move, .step = 4}, 3), FaultKind::stop);
    FaultWatch other{parsed.plan, WorkerId{1}};
    EXPECT_EQ(other.strikes(instruction(5, Kind::commit, 0), 3), std::nullopt);
    EXPECT_EQ(other.strikes({.phase = Phase::evaluation, .step = 5, .kind = Kind::commit}, 3),
              FaultKind::exit);
    FaultWatch nobody{parsed.plan, WorkerId{0}};
    EXPECT_EQ(nobody.strikes(instruction(12, Kind::forward, 3), 3), std::nullopt);
}

TEST(Faults, AtRandomComeFromTheSeedAndSpareTheLastOne) {
    const auto strikes = [](const std::string& text, std::int32_t worker, std::size_t members) {
        FaultWatch watch{parse_faults(text).plan, WorkerId{worker}};
        std::vector<int> at;
        for (int place = 0; place < 20'000; ++place) {
            if (watch.strikes(instruction(0, Kind::forward, place), members)) at.push_back(place);
        }
        return at;
    };
    const auto found = strikes("soak@7/0.01", 1, 3);
    EXPECT_GT(found.size(), 150U);
    EXPECT_LT(found.size(), 250U);
    EXPECT_EQ(strikes("soak@7/0.01", 1, 3), found);
    EXPECT_NE(strikes("soak@8/0.01", 1, 3), found);
    EXPECT_NE(strikes("soak@7/0.01", 2, 3), found);
    EXPECT_TRUE(strikes("soak@7/0.01", 1, 1).empty());
}

TEST(Faults, SayWhatIsWrongWithTheirText) {
    for (const auto& [text, problem] : std::vector<std::pair<std::string, std::string>>{
             {"murder@1/2/C", "is no kill, stop, exit, abort or soak"},
             {"kill", "names no worker"},
             {"kill@x/2/C", "names no worker"},
             {"kill@-1/2/C", "names no worker"},
             {"kill@1/x/C", "names no step"},
             {"kill@1/2", "names no place"},
             {"kill@1/2/Q", "names no place"},
             {"kill@1/2/F#", "names no place"},
             {"kill@1/2/F#x", "names no place"},
             {"kill@1/2/step", "names no place"},
             {"soak@x/0.1", "has no seed"},
             {"soak@1/0", "has no chance"},
             {"soak@1/2", "has no chance"},
             {"soak@1", "has no chance"},
             {",", "is no kill"}}) {
        EXPECT_THAT(parse_faults(text).problem, HasSubstr(problem)) << text;
    }
    EXPECT_EQ(parse_faults("").problem, "");
}

TEST(Faults, NameEveryPhaseAndPlace) {
    for (std::size_t phase = static_cast<std::size_t>(Phase::save); phase < phase_names.size();
         ++phase) {
        EXPECT_EQ(parse_faults("kill@0/*/" + std::string{phase_names[phase]}).problem, "");
    }
    for (const char* word : {"F", "B", "I", "W", "R", "SA", "RA", "SG", "RG", "SS", "RS", "SP",
                             "RP", "C", "U", "SW", "RW"}) {
        EXPECT_EQ(parse_faults("kill@0/*/" + std::string{word}).problem, "") << word;
    }
    EXPECT_EQ(place_text(instruction(12, Kind::forward, 3)), "step 12 F#3");
    EXPECT_EQ(place_text({.phase = Phase::move, .step = 2}), "step 2 move");
    EXPECT_EQ(place_text({.phase = Phase::evaluation, .step = 2, .kind = Kind::commit}),
              "step 2 evaluation C#0");
}

}  // namespace
}  // namespace rhizome::engine
