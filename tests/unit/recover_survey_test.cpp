// A report comes through the wire as it was.
#include <gtest/gtest.h>

#include "recover/survey.hpp"

namespace rhizome::recover {
namespace {

TEST(Report, TravelsAsNumbers) {
    for (const std::size_t chunks : {1U, 31U, 32U, 33U, 100U}) {
        Report report{.worker = WorkerId{7}, .steps = 1234567, .notes = {-1, 0, 5}};
        for (std::size_t c = 0; c < chunks; ++c) report.owns.push_back(c % 3 == 0);
        report.holds = {true, false, true};
        report.lanes = {false, true, true, false};
        const ReportSize size{.chunks = chunks, .layers = 3, .lanes = 4, .notes = 3};
        const auto words = to_words(report);
        EXPECT_EQ(words.size(), words_of(size));
        EXPECT_EQ(parse_report(WorkerId{7}, size, words), report);
    }
}

}  // namespace
}  // namespace rhizome::recover
