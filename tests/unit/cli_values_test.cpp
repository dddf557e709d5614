#include "cli/values.hpp"

#include <gtest/gtest.h>

#include <clocale>
#include <cmath>
#include <limits>
#include <locale>
#include <string>
#include <vector>

#include "cli/run_config.hpp"
#include "unit/cli_parse.hpp"

namespace rhizome::cli {
namespace {

std::string whole_problem(std::string_view text) {
    std::int64_t value = -7;
    const MaybeProblem problem = read_whole(text, {1, 2000}, value);
    EXPECT_EQ(problem.has_value(), value == -7) << text;
    return problem ? problem->reason + "; " + problem->hint : "";
}

std::string real_problem(std::string_view text) {
    double value = -7;
    const MaybeProblem problem = read_real(text, below_one, value);
    EXPECT_EQ(problem.has_value(), value == -7) << text;
    return problem ? problem->reason + "; " + problem->hint : "";
}

TEST(WholeNumbers, AreReadUpToBothEndsOfTheRange) {
    std::int64_t value{};
    EXPECT_FALSE(read_whole("1", {1, 2000}, value));
    EXPECT_EQ(value, 1);
    EXPECT_FALSE(read_whole("2000", {1, 2000}, value));
    EXPECT_EQ(value, 2000);
    EXPECT_FALSE(read_whole("-3", {-5, 5}, value));
    EXPECT_EQ(value, -3);
}

TEST(WholeNumbers, OutsideTheRangeNameTheRange) {
    const std::string outside = "outside 1..2000; take a whole number in that range";
    for (const auto* text : {"0", "2001", "-1", "-0", "9223372036854775808",
                             "-99999999999999999999999", "99999999999999999999999999999999"}) {
        EXPECT_EQ(whole_problem(text), outside) << text;
    }
}

TEST(WholeNumbers, InAnotherNotationAreRefusedWithTheDigitsToWrite) {
    EXPECT_EQ(whole_problem("1e3"), "no whole number; write 1000");
    EXPECT_EQ(whole_problem("1E+3"), "no whole number; write 1000");
    EXPECT_EQ(whole_problem("4.0"), "no whole number; write 4");
    EXPECT_EQ(whole_problem("+4"), "no whole number; write 4");
    EXPECT_EQ(whole_problem("0x10"), "no whole number; write 16");
    EXPECT_EQ(whole_problem("1_000"), "no whole number; write 1000");
    EXPECT_EQ(whole_problem(" 4"), "no whole number: blanks inside; write 4");
    EXPECT_EQ(whole_problem("4\t"), "no whole number: blanks inside; write 4");
    EXPECT_EQ(whole_problem("1 000"), "no whole number: blanks inside; write 1000");
}

TEST(WholeNumbers, ThatCannotBeGuessedAreRefusedWithTheRange) {
    for (const auto* text : {"four", "4k", "4.5", "nan", "inf", "-inf", "infinity", "1e9", "0x",
                             "--4", "4-", "1,000", "1e999", "\xC2\xB2", "-", "+", "e", "."}) {
        EXPECT_EQ(whole_problem(text), "no whole number; take one in 1..2000") << text;
    }
}

TEST(Seeds, TakeAllOf64Bits) {
    std::uint64_t value{};
    EXPECT_FALSE(read_unsigned("18446744073709551615", value));
    EXPECT_EQ(value, std::numeric_limits<std::uint64_t>::max());
    for (const auto* text : {"18446744073709551616", "-1", "99999999999999999999999"}) {
        const auto problem = read_unsigned(text, value);
        ASSERT_TRUE(problem) << text;
        EXPECT_EQ(problem->reason, "outside 0..18446744073709551615") << text;
    }
    for (const auto* text : {"1e3", "+1000", "0x3e8", "1000.0", "1000 "}) {
        const auto problem = read_unsigned(text, value);
        ASSERT_TRUE(problem) << text;
        EXPECT_EQ(problem->hint, "write 1000") << text;
    }
}

TEST(RealNumbers, AreReadInFixedAndScientificNotation) {
    const std::vector<std::pair<std::string, double>> expected{
        {"0", 0}, {"0.25", 0.25}, {"1e-3", 1e-3}, {"1E-03", 1e-3}, {".5", 0.5}, {"2.5e-1", 0.25}};
    for (const auto& [text, number] : expected) {
        double value = -7;
        EXPECT_FALSE(read_real(text, below_one, value)) << text;
        EXPECT_EQ(value, number) << text;
    }
}

TEST(RealNumbers, HaveOneZero) {
    double value = -7;
    EXPECT_FALSE(read_real("-0", below_one, value));
    EXPECT_FALSE(std::signbit(value));
}

TEST(RealNumbers, OutsideTheRangeNameTheRange) {
    for (const auto* text : {"1", "1.0", "-0.1", "1e300", "-1e-300"}) {
        EXPECT_EQ(real_problem(text), "must be in [0, 1); take a number in that range") << text;
    }
}

TEST(RealNumbers, ThatAreNoneAreRefused) {
    for (const auto* text : {"nan", "NaN", "nan(1)", "inf", "-inf", "infinity", "0x1p-2", "0.1f",
                             "0.1.2", "1e", "--1", "1e-400", "1e400", "50%", "half"}) {
        EXPECT_EQ(real_problem(text), "no finite number; take one in [0, 1)") << text;
    }
    const std::string reason = "no number: write digits, a point and e alone; ";
    EXPECT_EQ(real_problem("+0.5"), reason + "write 0.5");
    EXPECT_EQ(real_problem(" 0.5"), reason + "write 0.5");
    EXPECT_EQ(real_problem("0,5"), reason + "write 0.5");
}

std::vector<std::int32_t> depths_of(std::string_view text) {
    std::vector<std::int32_t> depths{-7};
    const MaybeProblem problem = read_depths(text, depths);
    EXPECT_EQ(problem.has_value(), depths == std::vector{-7}) << text;
    return problem ? std::vector<std::int32_t>{} : depths;
}

TEST(Depths, AreListsWithRepetitions) {
    using List = std::vector<std::int32_t>;
    EXPECT_EQ(depths_of("1"), (List{1}));
    EXPECT_EQ(depths_of("3,2"), (List{3, 2}));
    EXPECT_EQ(depths_of("2x3"), (List{3, 3}));
    EXPECT_EQ(depths_of("4x3,2"), (List{3, 3, 3, 3, 2}));
    EXPECT_EQ(depths_of("1x5,5,2x1"), (List{5, 5, 1, 1}));
    EXPECT_EQ(depths_of("4096x4096"), List(4096, 4096));
}

TEST(Depths, ThatAreNoneAreRefused) {
    for (const auto* text : {"",       ",",   "3,",   ",3",       "0",
                             "0x3",    "3x0", "x3",   "3x",       "2x2x2",
                             "-1",     "3;2", "3, 2", "2X3",      "4097",
                             "4097x1", "two", "1.5",  "4096x1,1", "99999999999999999999x1"}) {
        EXPECT_TRUE(depths_of(text).empty()) << text;
    }
}

TEST(Depths, HaveOneShortestTextFromWhichTheyAreReadAgain) {
    for (const auto& [text, shortest] :
         std::vector<std::pair<std::string, std::string>>{{"1", "1"},
                                                          {"3,2", "3,2"},
                                                          {"3,3", "2x3"},
                                                          {"4x3,2", "4x3,2"},
                                                          {"3,3,2,3", "2x3,2,3"},
                                                          {"1x5,5,2x1", "2x5,2x1"}}) {
        EXPECT_EQ(depths_text(depths_of(text)), shortest);
        EXPECT_EQ(depths_of(shortest), depths_of(text));
    }
}

TEST(Paths, ThatAFileCannotHoldAreRefused) {
    std::string value = "before";
    for (const auto* text : {"a#b", "#", "a\nb", "a\tb", " a", "a ", "a\x7F"}) {
        EXPECT_TRUE(read_path(text, value)) << text;
    }
    EXPECT_EQ(value, "before");
    for (const auto* text : {"a", "a b", "-a", "[a]", "a=b", "'a'", "\xC3\xA4", "s/*.bin"}) {
        EXPECT_FALSE(read_path(text, value)) << text;
        EXPECT_EQ(value, text);
    }
}

TEST(Shown, StaysOnOneShortLine) {
    EXPECT_EQ(shown("plain \xC3\xA4"), "plain \xC3\xA4");
    EXPECT_EQ(shown(std::string_view{"a\n\0b\x1B", 5}), "a\\x0a\\x00b\\x1b");
    EXPECT_LT(shown(std::string(1'000'000, 'x')).size(), 200U);
}

/// Numbers as large parts of the world write them: 1.234.567,5
struct CommaNumbers : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
};

class WithCommaLocale : public ::testing::Test {
  public:
    WithCommaLocale()
        : before_{std::locale::global(std::locale{std::locale::classic(), new CommaNumbers})} {
        // Where one is installed; the C library's own functions read it.
        for (const auto* name : {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "fr_FR"}) {
            if (std::setlocale(LC_NUMERIC, name) != nullptr) break;
        }
    }
    ~WithCommaLocale() override {
        std::locale::global(before_);
        std::setlocale(LC_NUMERIC, "C");
    }
    WithCommaLocale(const WithCommaLocale&) = delete;
    WithCommaLocale& operator=(const WithCommaLocale&) = delete;

  private:
    std::locale before_;
};

TEST_F(WithCommaLocale, NumbersAreReadAndWrittenAsAnywhere) {
    const RunConfig config =
        parse_with_data({.flags = {"--optimizer.learning_rate", "0.0025"},
                         .environment = {{"RHIZOME_MODEL_VOCABULARY", "50257"}},
                         .file = "model.dropout = 1.5e-1\nseed = 1234567\n"});
    EXPECT_EQ(config.optimizer.learning_rate, 0.0025);
    EXPECT_EQ(config.model.vocabulary, 50257);
    EXPECT_EQ(config.model.dropout, 0.15);
    EXPECT_EQ(config.seed, 1234567U);

    const std::string here = to_text(config);
    const std::string digest = mathematics_digest(config, "");
    std::locale::global(std::locale::classic());
    std::setlocale(LC_NUMERIC, "C");
    EXPECT_EQ(to_text(config), here);
    EXPECT_EQ(mathematics_digest(config, ""), digest);
}

TEST_F(WithCommaLocale, ACommaIsNoDecimalPoint) {
    EXPECT_EQ(real_problem("0,5"), "no number: write digits, a point and e alone; write 0.5");
    EXPECT_NE(whole_problem("1.000"), "");
}

}  // namespace
}  // namespace rhizome::cli
