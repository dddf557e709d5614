// A fixed sample of what tests/slow/schedule_all_properties_test.cpp does in full.
#include "support/schedule_properties.hpp"

namespace rhizome::tests {
namespace {

class ScheduleProperties : public testing::TestWithParam<schedule::Style> {};

TEST_P(ScheduleProperties, HoldForASampleOfSizes) {
    std::mt19937_64 sample{1};
    expect_lines_right(GetParam(), &sample);
}

TEST_P(ScheduleProperties, HoldForRandomShapes) { expect_random_shapes_right(GetParam(), 0, 60); }

INSTANTIATE_TEST_SUITE_P(Styles, ScheduleProperties, testing::ValuesIn(schedule::all_styles()),
                         [](const auto& each) {
                             return "number" + std::to_string(static_cast<int>(each.param));
                         });

}  // namespace
}  // namespace rhizome::tests
