// Every generator with every size of the sample test, and thousands of uneven shapes.
#include "support/schedule_properties.hpp"

namespace rhizome::tests {
namespace {

class AllScheduleProperties : public testing::TestWithParam<schedule::Style> {};

TEST_P(AllScheduleProperties, HoldForAllSizes) { expect_lines_right(GetParam(), nullptr); }

TEST_P(AllScheduleProperties, HoldForThousandsOfShapes) {
    expect_random_shapes_right(GetParam(), 1000, 4000);
}

INSTANTIATE_TEST_SUITE_P(Styles, AllScheduleProperties, testing::ValuesIn(schedule::all_styles()),
                         [](const auto& each) {
                             return "number" + std::to_string(static_cast<int>(each.param));
                         });

}  // namespace
}  // namespace rhizome::tests
