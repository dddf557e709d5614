#include "core/text.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "core/philox.hpp"

namespace rhizome {
namespace {

TEST(ParseInteger, TakesDecimalDigitsAndALeadingMinusUpToTheLimits) {
    EXPECT_EQ(parse_integer("0"), 0);
    EXPECT_EQ(parse_integer("42"), 42);
    EXPECT_EQ(parse_integer("-42"), -42);
    EXPECT_EQ(parse_integer("007"), 7);
    EXPECT_EQ(parse_integer("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
    EXPECT_EQ(parse_integer("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
}

TEST(ParseInteger, RefusesOverflow) {
    EXPECT_EQ(parse_integer("9223372036854775808"), std::nullopt);
    EXPECT_EQ(parse_integer("-9223372036854775809"), std::nullopt);
    EXPECT_EQ(parse_integer("100000000000000000000000"), std::nullopt);
}

TEST(ParseUnsigned, TakesDecimalDigitsUpToTheLimit) {
    EXPECT_EQ(parse_unsigned("0"), 0);
    EXPECT_EQ(parse_unsigned("18446744073709551615"), std::numeric_limits<std::uint64_t>::max());
    EXPECT_EQ(parse_unsigned("18446744073709551616"), std::nullopt);
    EXPECT_EQ(parse_unsigned("-1"), std::nullopt);
    EXPECT_EQ(parse_unsigned("-0"), std::nullopt);
}

TEST(Parse, RefusesWhatIsNotWhollyANumberOfTheKind) {
    for (const std::string_view text :
         {"",    "+1",   " 1",       "1 ",    "\t1",   "1\n",   "- 1", "--1", "-",
          "+",   ".",    "0x10",     "1_000", "1,000", "1'000", "one", "nan", "-nan",
          "inf", "-inf", "infinity", "NaN",   "1k",    "1e",    "e1",  "1e+"}) {
        EXPECT_EQ(parse_integer(text), std::nullopt) << text;
        EXPECT_EQ(parse_unsigned(text), std::nullopt) << text;
        EXPECT_EQ(parse_number(text), std::nullopt) << text;
    }
    for (const std::string_view text : {"1e3", "1.0", "1.", ".5", "-0.0"}) {
        EXPECT_EQ(parse_integer(text), std::nullopt) << text;
        EXPECT_EQ(parse_unsigned(text), std::nullopt) << text;
        EXPECT_NE(parse_number(text), std::nullopt) << text;
    }
    constexpr std::string_view with_a_zero_byte{"1\0", 2};
    EXPECT_EQ(parse_integer(with_a_zero_byte), std::nullopt);
    EXPECT_EQ(parse_number(with_a_zero_byte), std::nullopt);
}

TEST(Parse, LooksAtNothingBehindTheEndOfItsText) {
    constexpr std::string_view digits = "12345";
    EXPECT_EQ(parse_integer(digits.substr(0, 3)), 123);
    EXPECT_EQ(parse_unsigned(digits.substr(1, 2)), 23);
    EXPECT_EQ(parse_number(digits.substr(0, 1)), 1.0);
}

TEST(ParseNumber, TakesFixedAndScientificNotation) {
    EXPECT_EQ(parse_number("0.5"), 0.5);
    EXPECT_EQ(parse_number("-12.25"), -12.25);
    EXPECT_EQ(parse_number("1e3"), 1000.0);
    EXPECT_EQ(parse_number("2.5e-3"), 0.0025);
    EXPECT_EQ(parse_number("1E+2"), 100.0);
    EXPECT_EQ(parse_number("3"), 3.0);
    EXPECT_EQ(parse_number("1.7976931348623157e308"), std::numeric_limits<double>::max());
    EXPECT_EQ(parse_number("5e-324"), std::numeric_limits<double>::denorm_min());
}

TEST(ParseNumber, RefusesWhatNoFiniteNumberIs) {
    EXPECT_EQ(parse_number("1e400"), std::nullopt);
    EXPECT_EQ(parse_number("-1e400"), std::nullopt);
    EXPECT_EQ(parse_number("1.8e308"), std::nullopt);
}

TEST(ToText, IsShortAndParsesBackToTheSameBits) {
    EXPECT_EQ(to_text(0.1), "0.1");
    EXPECT_EQ(to_text(1.0), "1");
    EXPECT_EQ(to_text(-2.5e-9), "-2.5e-09");
    EXPECT_EQ(to_text(0.0), "0");
    EXPECT_EQ(to_text(-0.0), "-0");
    int compared = 0;
    for (std::uint32_t block = 0; block < 5000; ++block) {
        const auto words = philox4x32_10({block, 0, 0, 0}, {17, 0});
        for (const std::size_t half : {0, 2}) {
            const auto bits = (std::uint64_t{words[half]} << 32) | words[half + 1];
            const auto value = std::bit_cast<double>(bits);  // any exponent
            if (!std::isfinite(value)) continue;
            const std::optional<double> parsed = parse_number(to_text(value));
            ASSERT_TRUE(parsed) << to_text(value);
            EXPECT_EQ(std::bit_cast<std::uint64_t>(*parsed), bits) << to_text(value);
            ++compared;
        }
    }
    EXPECT_GT(compared, 9900);
}

TEST(ToText, HasRoomForTheLongestShortestText) {
    EXPECT_EQ(to_text(-std::numeric_limits<double>::max()), "-1.7976931348623157e+308");
    EXPECT_EQ(to_text(std::numeric_limits<double>::denorm_min()), "5e-324");
    EXPECT_EQ(to_text(-2.2250738585072014e-308), "-2.2250738585072014e-308");
}

TEST(ToFixed, HasThatManyDigitsBehindThePoint) {
    EXPECT_EQ(to_fixed(3.14159, 2), "3.14");
    EXPECT_EQ(to_fixed(2.0, 3), "2.000");
    EXPECT_EQ(to_fixed(0.6, 0), "1");
    EXPECT_EQ(to_fixed(-1.26, 1), "-1.3");
    EXPECT_EQ(to_fixed(1e-9, 4), "0.0000");
    EXPECT_EQ(to_fixed(1e21, 1), "1000000000000000000000.0");
    EXPECT_EQ(to_fixed(std::numeric_limits<double>::max(), 1).size(), 309U + 2);
}

TEST(ToShort, RoundsToOneDigitBehindThePointOfALargeUnit) {
    EXPECT_EQ(to_short(0), "0");
    EXPECT_EQ(to_short(7), "7");
    EXPECT_EQ(to_short(950), "950");
    EXPECT_EQ(to_short(999), "999");
    EXPECT_EQ(to_short(1000), "1.0k");
    EXPECT_EQ(to_short(12345), "12.3k");
    EXPECT_EQ(to_short(999900), "999.9k");
    EXPECT_EQ(to_short(999960), "1.0M") << "not 1000.0k";
    EXPECT_EQ(to_short(124439808), "124.4M");
    EXPECT_EQ(to_short(6.7e9), "6.7G");
    EXPECT_EQ(to_short(1.5e12), "1.5T");
    EXPECT_EQ(to_short(2e15), "2.0P");
    EXPECT_EQ(to_short(3e18), "3000.0P") << "the last unit takes the rest";
    EXPECT_EQ(to_short(-12345), "-12.3k");
}

TEST(ToShort, NeverRoundsUpToAThousandOfAUnit) {
    EXPECT_EQ(to_short(999.4), "999");
    EXPECT_EQ(to_short(999.7), "1.0k");
}

TEST(ToDuration, ChangesItsFormAtOneMinuteAndOneHour) {
    EXPECT_EQ(to_duration(0), "0 s");
    EXPECT_EQ(to_duration(-3), "0 s");
    EXPECT_EQ(to_duration(0.4), "0 s");
    EXPECT_EQ(to_duration(7), "7 s");
    EXPECT_EQ(to_duration(59.4), "59 s");
    EXPECT_EQ(to_duration(59.6), "1:00");
    EXPECT_EQ(to_duration(65), "1:05");
    EXPECT_EQ(to_duration(3599), "59:59");
    EXPECT_EQ(to_duration(3599.5), "1:00:00");
    EXPECT_EQ(to_duration(7389), "2:03:09");
    EXPECT_EQ(to_duration(360000), "100:00:00");
}

TEST(Nearest, FindsTheCandidateThatWasMeant) {
    const std::vector<std::string> keys{"optimizer.clip_norm", "model.context", "model.channels",
                                        "seed"};
    EXPECT_EQ(nearest("model.contxt", keys), "model.context");
    EXPECT_EQ(nearest("model.chanels", keys), "model.channels");
    EXPECT_EQ(nearest("sede", keys), "seed");
    EXPECT_EQ(nearest("optimizer.clipnorm", keys), "optimizer.clip_norm");
    EXPECT_EQ(nearest("seed", keys), "seed");
}

TEST(Nearest, PrefersTheSmallerDistanceAndOfEqualOnesTheFirst) {
    const std::vector<std::string> keys{"abcx", "abcy", "abc"};
    EXPECT_EQ(nearest("abc", keys), "abc");
    EXPECT_EQ(nearest("abcz", keys), "abcx");
}

TEST(Nearest, FindsNothingWhenAllAreTooFar) {
    const std::vector<std::string> keys{"model.context", "seed"};
    EXPECT_EQ(nearest("threads", keys), std::nullopt);
    EXPECT_EQ(nearest("", keys), std::nullopt);
    EXPECT_EQ(nearest("seed", {}), std::nullopt);
    EXPECT_EQ(nearest("dees", keys), "seed");         // two away: the bound for short words
    EXPECT_EQ(nearest("dees_", keys), std::nullopt);  // three away
}

}  // namespace
}  // namespace rhizome
