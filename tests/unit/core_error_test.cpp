#include "core/error.hpp"

#include <gtest/gtest.h>

namespace rhizome {
namespace {

TEST(UserError, CarriesItsMessageAndTheExitCodeOfItsKind) {
    EXPECT_EQ(ConfigError{"lanes=3 (why), hint"}.code(), ExitCode::bad_config);
    EXPECT_EQ(DataError{"x"}.code(), ExitCode::bad_data);
    EXPECT_EQ(DivergedError{"x"}.code(), ExitCode::diverged);
    EXPECT_STREQ(ConfigError{"lanes=3 (why), hint"}.what(), "lanes=3 (why), hint");
}

TEST(UserError, IsCaughtInOnePlaceWhateverItsKind) {
    try {
        throw DataError{"gone"};
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::bad_data);
    }
}

TEST(Ensure, LetsAKeptPromisePassAndEvaluatesItOnce) {
    int evaluations = 0;
    ENSURE(++evaluations == 1);
    EXPECT_EQ(evaluations, 1);
}

TEST(EnsureDeathTest, NamesConditionAndPlaceAndEndsWithCodeOne) {
    const int lanes = 3;
    EXPECT_EXIT(ENSURE(lanes == 4), testing::ExitedWithCode(1),
                "broken promise in our own code: lanes == 4 \\(.*core_error_test.cpp:[0-9]+\\)");
}

}  // namespace
}  // namespace rhizome
