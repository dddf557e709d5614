#include "cli/generate_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "cli/command_line.hpp"
#include "core/error.hpp"

namespace rhizome::cli {
namespace {

using ::testing::ElementsAre;

std::string message_of(const Arguments& arguments) {
    try {
        (void)parse_generate_options(arguments);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "";
}

TEST(GenerateOptions, NeedNothingButAPlace) {
    GenerateOptions expected;
    expected.from = "runs/first";
    EXPECT_EQ(parse_generate_options({"runs/first"}), expected);
    EXPECT_EQ(expected.tokens, 200);
    EXPECT_EQ(expected.rule.temperature, 1.0);
    EXPECT_EQ(expected.rule.top_k, 0);
    EXPECT_EQ(expected.seed, 1U);
}

TEST(GenerateOptions, AreReadInAnyOrderAndBothForms) {
    const GenerateOptions options = parse_generate_options(
        {"--prompt", "And God said", "--tokens=7", "runs/first", "--temperature", "0.5",
         "--top-k=40", "--seed", "18446744073709551615", "--threads=2", "--heads", "12"});
    EXPECT_EQ(options.from, "runs/first");
    EXPECT_EQ(options.prompt, "And God said");
    EXPECT_EQ(options.tokens, 7);
    EXPECT_EQ(options.rule, (engine::TokenRule{.temperature = 0.5, .top_k = 40}));
    EXPECT_EQ(options.seed, 18446744073709551615U);
    EXPECT_EQ(options.threads, 2);
    EXPECT_EQ(options.heads, 12);
}

TEST(GenerateOptions, TakeAnyPrompt) {
    EXPECT_EQ(parse_generate_options({"x", "--prompt", ""}).prompt, "");
    EXPECT_EQ(parse_generate_options({"x", "--prompt="}).prompt, "");
    EXPECT_EQ(parse_generate_options({"x", "--prompt=--seed=3"}).prompt, "--seed=3");
    EXPECT_EQ(parse_generate_options({"x", "--prompt", "-1 a=b\n\xFF"}).prompt, "-1 a=b\n\xFF");
}

TEST(GenerateOptions, TakeTokensByNumber) {
    const auto options = parse_generate_options({"x", "--prompt-ids", "464,0,2147483647"});
    ASSERT_TRUE(options.prompt_ids.has_value());
    EXPECT_THAT(options.prompt_ids.value_or(std::vector<std::int32_t>{}),
                ElementsAre(464, 0, 2147483647));
    for (const std::string ids : {"", ",", "1,", ",1", "1,,2", "1 2", "-1", "2147483648", "1.5"}) {
        EXPECT_THAT(message_of({"x", "--prompt-ids=" + ids}),
                    testing::MatchesRegex("--prompt-ids=.* \\(.+\\), write tokens as 1,2,3"))
            << ids;
    }
}

TEST(GenerateOptions, KeepTheirRanges) {
    const auto parses = [](const std::string& flag) { return message_of({"x", flag}).empty(); };
    for (const char* good :
         {"--tokens=1", "--tokens=1000000", "--temperature=0", "--temperature=1e6", "--top-k=0",
          "--top-k=2147483647", "--seed=0", "--threads=1024", "--heads=1"}) {
        EXPECT_TRUE(parses(good)) << good;
    }
    for (const char* bad :
         {"--tokens=0", "--tokens=1000001", "--tokens=", "--tokens=1e3", "--temperature=-0.1",
          "--temperature=1000001", "--temperature=nan", "--temperature=inf", "--top-k=-1",
          "--top-k=2147483648", "--seed=-1", "--seed=18446744073709551616", "--threads=0",
          "--threads=1025", "--heads=0", "--heads=65536"}) {
        EXPECT_FALSE(parses(bad)) << bad;
    }
    EXPECT_THAT(message_of({"x", "--temperature=-1"}),
                testing::HasSubstr("--temperature=-1 (must be in [0, 1e6])"));
}

TEST(GenerateOptions, SayWhatIsWrong) {
    EXPECT_EQ(message_of({}),
              "rhizome generate (from which weights?), name a state, a run's folder or a file: "
              "rhizome generate FROM");
    EXPECT_EQ(message_of({"a", "b"}), "`b` (one state, run or file is wanted), name just one");
    EXPECT_EQ(message_of({""}), "`` (one state, run or file is wanted), name just one");
    EXPECT_EQ(message_of({"x", "--promt=a"}), "`--promt` (no such flag), did you mean --prompt?");
    EXPECT_EQ(message_of({"x", "--frobnicate"}),
              "`--frobnicate` (no such flag), `rhizome generate --help` lists all");
    EXPECT_EQ(message_of({"x", "--seed=1", "--seed", "1"}), "--seed (given before), keep one");
    EXPECT_EQ(message_of({"x", "--prompt"}), "--prompt (has no value), write --prompt=VALUE");
    EXPECT_EQ(message_of({"x", "--prompt", "--seed=1"}),
              "--prompt (no value: `--seed=1` looks like a flag), write --prompt=VALUE");
    EXPECT_EQ(message_of({"x", "--prompt-ids=1", "--prompt="}),
              "--prompt-ids (beside --prompt), keep one");
}

TEST(GenerateOptions, AreReadByTheProgram) {
    const auto parse = [](const Arguments& arguments) {
        return parse_command_line(arguments, {}, [](const std::string&) { return ""; });
    };
    const Command command = parse({"generate", "runs/first", "--seed=3"});
    EXPECT_EQ(command.kind, Command::Kind::generate);
    EXPECT_EQ(command.generate.from, "runs/first");
    EXPECT_EQ(command.generate.seed, 3U);
    EXPECT_EQ(parse({"generate", "--nonsense", "--help"}).kind, Command::Kind::generate_help);
    EXPECT_THROW((void)parse({"generate"}), ConfigError);
}

TEST(GenerateHelp, FitsAHundredColumnsAndHasEveryFlag) {
    const std::string help = generate_help_text();
    std::istringstream lines{help};
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
    for (const char* flag : {"--prompt TEXT", "--prompt-ids N", "--tokens N", "--temperature X",
                             "--top-k K", "--seed S", "--threads N", "--heads N"}) {
        EXPECT_THAT(help, testing::HasSubstr("\n  " + std::string{flag}));
    }
}

}  // namespace
}  // namespace rhizome::cli
