#include "core/ids.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace rhizome {
namespace {

TEST(Id, KeepsItsValueAndOrdersByIt) {
    EXPECT_EQ(LayerId{0}.value(), 0);
    EXPECT_EQ(LayerId{7}.index(), 7U);
    EXPECT_EQ(Step{std::numeric_limits<std::int32_t>::max()}.value(), 2147483647);
    EXPECT_EQ(Lane{3}, Lane{3});
    EXPECT_NE(Lane{3}, Lane{4});
    EXPECT_LT(Lane{3}, Lane{4});
}

TEST(Id, DoesNotMixKinds) {
    static_assert(!std::is_convertible_v<std::int32_t, Lane>);
    static_assert(!std::is_constructible_v<Lane, Microbatch>);
    static_assert(!std::is_constructible_v<LayerId, Step>);
    static_assert(!std::is_convertible_v<Lane, std::int32_t>);
}

TEST(IdDeathTest, RefusesNegativeValues) {
    EXPECT_EXIT((void)LayerId{-1}, testing::ExitedWithCode(1), "broken promise");
    EXPECT_EXIT((void)Step{std::numeric_limits<std::int32_t>::min()}, testing::ExitedWithCode(1),
                "broken promise");
}

}  // namespace
}  // namespace rhizome
