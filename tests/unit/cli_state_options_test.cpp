// The command line of `rhizome-state`.
#include "cli/state_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"

namespace rhizome::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::string refusal(const Arguments& arguments) {
    try {
        (void)parse_state_options(arguments);
    } catch (const ConfigError& error) {
        EXPECT_THAT(error.what(), MatchesRegex(".* \\(.+\\), .+"));
        return error.what();
    }
    ADD_FAILURE() << "not refused";
    return {};
}

TEST(StateOptions, TakeFlagsAnywhereBehindTheVerb) {
    for (const Arguments& arguments : {Arguments{"diff", "a", "b", "--tolerance", "1e-3", "--json"},
                                       Arguments{"diff", "--json", "a", "--tolerance=1e-3", "b"}}) {
        const StateOptions options = parse_state_options(arguments);
        EXPECT_EQ(options.verb, StateVerb::diff);
        EXPECT_TRUE(options.json);
        EXPECT_THAT(options.words, ElementsAre("a", "b"));
        ASSERT_NE(options.value_of("--tolerance"), nullptr);
        EXPECT_EQ(*options.value_of("--tolerance"), "1e-3");
        EXPECT_EQ(options.value_of("--only"), nullptr);
    }
}

TEST(StateOptions, KnowSwitchesFromFlagsWithAValue) {
    const StateOptions options = parse_state_options({"prune", "--dry-run", "run", "--keep", "4"});
    EXPECT_TRUE(options.has("--dry-run"));
    EXPECT_THAT(options.words, ElementsAre("run"));
    EXPECT_THAT(refusal({"prune", "run", "--dry-run=yes"}), HasSubstr("takes no value"));
    EXPECT_THAT(refusal({"ls", "run", "--json=1"}), HasSubstr("takes no value"));
}

TEST(StateOptions, HandTheKeysOfAnImportOn) {
    const StateOptions options = parse_state_options(
        {"import", "f", "--seed", "3", "out", "--config=run.conf", "--heads=2"});
    EXPECT_THAT(options.keys, ElementsAre("--seed=3", "--config=run.conf"));
    EXPECT_THAT(options.words, ElementsAre("f", "out"));
    EXPECT_EQ(*options.value_of("--heads"), "2");
    EXPECT_THAT(refusal({"export", "s", "f", "--seed", "3"}), HasSubstr("no such flag"));
}

TEST(StateOptions, HelpWinsOverAllElse) {
    EXPECT_TRUE(parse_state_options({"diff", "--help"}).help);
    EXPECT_TRUE(parse_state_options({"diff", "--nonsense", "-h"}).help);
    EXPECT_FALSE(parse_state_options({"ls", "x"}).help);
}

TEST(StateOptions, GuessWhatWasMeant) {
    EXPECT_THAT(refusal({"verfy", "x"}), HasSubstr("did you mean `rhizome-state verify`?"));
    EXPECT_THAT(refusal({"something"}), HasSubstr("`rhizome-state --help` lists"));
    EXPECT_THAT(refusal({"prune", "x", "--keep_every", "3"}), HasSubstr("mean --keep-every?"));
    EXPECT_THAT(refusal({"import", "x", "y", "--sead", "3"}), HasSubstr("mean --seed?"));
    EXPECT_THAT(refusal({"ls", "x", "--frobnicate"}), HasSubstr("`rhizome-state ls --help`"));
}

TEST(StateOptions, RefuseWhatIsMissingDoubledOrTooMuch) {
    EXPECT_THAT(refusal({"ls"}), HasSubstr("write rhizome-state ls RUN"));
    EXPECT_THAT(refusal({"diff", "a"}), HasSubstr("one name is missing"));
    EXPECT_THAT(refusal({"merge", "a", "b", "c"}), HasSubstr("`c` (is one too many)"));
    EXPECT_THAT(refusal({"ls", ""}), HasSubstr("names nothing"));
    EXPECT_THAT(refusal({"prune", "a", "--keep"}), HasSubstr("has no value"));
    EXPECT_THAT(refusal({"prune", "a", "--keep="}), HasSubstr("has no value"));
    EXPECT_THAT(refusal({"prune", "a", "--keep", "--dry-run"}), HasSubstr("looks like a flag"));
    EXPECT_THAT(refusal({"prune", "a", "--keep", "1", "--keep=2"}), HasSubstr("given before"));
    EXPECT_THAT(refusal({"ls", "a", "--json", "--json"}), HasSubstr("given before"));
    EXPECT_THAT(refusal({"ls", "a", "-x"}), HasSubstr("no such flag"));
}

}  // namespace
}  // namespace rhizome::cli
