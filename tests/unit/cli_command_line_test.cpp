#include "cli/command_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <sstream>
#include <string>

#include "cli/help.hpp"
#include "cli/keys.hpp"
#include "core/error.hpp"

namespace rhizome::cli {
namespace {

using ::testing::HasSubstr;
using Kind = Command::Kind;

Command parse(const Arguments& arguments, const Environment& environment = {}) {
    return parse_command_line(arguments, environment, [](const std::string&) { return ""; });
}

std::string message_of(const Arguments& arguments) {
    try {
        (void)parse(arguments);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "";
}

TEST(CommandLine, WithoutACommandIsNotARun) { EXPECT_EQ(parse({}).kind, Kind::none); }

TEST(CommandLine, AsksForHelpVersionOrTraining) {
    EXPECT_EQ(parse({"--help"}).kind, Kind::help);
    EXPECT_EQ(parse({"-h"}).kind, Kind::help);
    EXPECT_EQ(parse({"--version"}).kind, Kind::version);
    EXPECT_EQ(parse({"train", "--help"}).kind, Kind::train_help);
    const Command command = parse({"train", "--data.train=a.txt"}, {{"RHIZOME_SEED", "3"}});
    EXPECT_EQ(command.kind, Kind::train);
    EXPECT_EQ(command.config.data.train, "a.txt");
    EXPECT_EQ(command.config.seed, 3U);
}

TEST(CommandLine, GivesHelpEvenBesideMistakes) {
    EXPECT_EQ(parse({"train", "--lanes", "x", "-h"}).kind, Kind::train_help);
    EXPECT_EQ(parse({"train", "--lanes", "--help"}).kind, Kind::train_help);
    EXPECT_EQ(parse({"--help"}, {{"RHIZOME_NONSENSE", "1"}}).kind, Kind::help);
}

TEST(CommandLine, WithAnUnknownCommandNamesTheNearest) {
    EXPECT_EQ(message_of({"trian"}), "`trian` (no such command), did you mean train?");
    EXPECT_EQ(message_of({"--hlep"}), "`--hlep` (no such command), did you mean --help?");
    EXPECT_EQ(message_of({"frobnicate"}),
              "`frobnicate` (no such command), `rhizome --help` lists what there is");
    EXPECT_THAT(message_of({""}), HasSubstr("`` (no such command)"));
    EXPECT_THAT(message_of({"--lanes", "train"}), HasSubstr("`--lanes` (no such command)"));
}

TEST(CommandLine, TakesNothingBesideHelpAndVersion) {
    EXPECT_EQ(message_of({"--version", "train"}), "`train` (--version stands alone), leave it out");
    EXPECT_EQ(message_of({"--help", "me"}), "`me` (--help stands alone), leave it out");
}

TEST(Environment, IsSplitAtTheFirstEqualsSign) {
    const std::array<const char*, 5> variables{"A=1", "B=x=y", "C=", "D", nullptr};
    EXPECT_EQ(environment_of(variables.data()),
              (Environment{{"A", "1"}, {"B", "x=y"}, {"C", ""}, {"D", ""}}));
    EXPECT_EQ(environment_of(nullptr), Environment{});
}

TEST(Help, FitsAHundredColumns) {
    for (const std::string& text :
         {help_text(), train_help_text(), run_help_text(), stop_help_text(), version_text()}) {
        EXPECT_TRUE(text.ends_with('\n'));
        std::istringstream lines{text};
        for (std::string line; std::getline(lines, line);) {
            EXPECT_LE(line.size(), 100U) << line;
            EXPECT_FALSE(line.ends_with(' ')) << line;
        }
    }
}

TEST(Help, OfTrainHasEveryKeyWithRangeAndDefaultAndEverySize) {
    const std::string help = train_help_text();
    for (const Key& key : keys()) {
        const std::size_t place = help.find("\n  " + key.name + " ");
        ASSERT_NE(place, std::string::npos) << key.name;
        const std::string line = help.substr(place + 1, help.find('\n', place + 1) - place - 1);
        EXPECT_THAT(line, HasSubstr(key.takes + "; default: " + key.default_text));
    }
    for (const model::GptSize& size : model::gpt_sizes) {
        EXPECT_THAT(help, HasSubstr("\n  " + std::string{size.name} + " "));
    }
    EXPECT_THAT(help, HasSubstr("RHIZOME_MODEL_BLOCKS"));
}

TEST(Help, TellsTheExitCodes) {
    const std::string help = help_text();
    for (const auto code :
         {ExitCode::done, ExitCode::our_fault, ExitCode::bad_config, ExitCode::bad_data,
          ExitCode::diverged, ExitCode::peer_lost, ExitCode::stopped, ExitCode::unfinished,
          ExitCode::unsaved, ExitCode::different}) {
        EXPECT_THAT(help, HasSubstr("\n  " + std::to_string(static_cast<int>(code)) + "  "));
    }
}

TEST(Version, IsOneLine) {
    EXPECT_THAT(version_text(), ::testing::MatchesRegex("rhizome [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

}  // namespace
}  // namespace rhizome::cli
