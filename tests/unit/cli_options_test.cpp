#include "cli/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cli/keys.hpp"
#include "unit/cli_parse.hpp"

namespace rhizome::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// --- what wins ---

TEST(Precedence, IsDefaultsThenFileThenEnvironmentThenFlags) {
    const std::string file = "lanes = 1\nmicrobatches = 40\nmodel.blocks = 7\n";
    const Environment environment{{"RHIZOME_LANES", "2"}, {"RHIZOME_MICROBATCHES", "20"}};
    const RunConfig config =
        parse_with_data({.flags = {"--lanes=5"}, .environment = environment, .file = file});
    EXPECT_EQ(config.lanes, 5);
    EXPECT_EQ(config.microbatches, 20);
    EXPECT_EQ(config.model.blocks, 7);
    EXPECT_EQ(config.steps, RunConfig{}.steps);
}

TEST(Precedence, DoesNotDependOnTheOrderOfFlags) {
    const std::string file = "threads = 3\n";
    EXPECT_EQ(parse_with_data({.flags = {"--threads", "2", "--steps", "9"}, .file = file}),
              parse_with_data({.flags = {"--steps", "9", "--threads", "2"}, .file = file}));
}

TEST(Defaults, AreFineOnceTrainingDataIsNamed) {
    RunConfig expected;
    expected.data.train = "train.txt";
    expected.optimizer.decay_steps = expected.steps;
    EXPECT_EQ(parse_with_data({}), expected);
}

TEST(TrainingData, IsRequired) {
    EXPECT_THAT([] { (void)parse({}); },
                ::testing::ThrowsMessage<ConfigError>(HasSubstr("data.train (no training data")));
}

TEST(Size, SetsTheShapeOfTheNetwork) {
    const RunConfig config = parse_with_data({.flags = {"--model.size", "gpt2-xl"}});
    EXPECT_EQ(config.model_size, "gpt2-xl");
    EXPECT_EQ(config.model.blocks, 48);
    EXPECT_EQ(config.model.channels, 1600);
    EXPECT_EQ(config.model.heads, 25);
    EXPECT_EQ(config.model.context, 1024);
    EXPECT_EQ(config.model.vocabulary, 50257);
}

TEST(Size, GivesWayToKeysOfTheSameSourceInEitherOrder) {
    for (const Arguments& flags : {Arguments{"--model.size", "gpt2", "--model.blocks", "2"},
                                   Arguments{"--model.blocks", "2", "--model.size", "gpt2"}}) {
        const RunConfig config = parse_with_data({.flags = flags});
        EXPECT_EQ(config.model.blocks, 2);
        EXPECT_EQ(config.model.channels, 768);
    }
    EXPECT_EQ(parse_with_data({.file = "[model]\nblocks = 2\nsize = gpt2\n"}).model.blocks, 2);
}

TEST(Size, GivesWayToKeysOfAStrongerSourceAndWinsOverAWeakerOne) {
    const RunConfig stronger =
        parse_with_data({.flags = {"--model.blocks", "2"}, .file = "model.size = gpt2"});
    EXPECT_EQ(stronger.model.blocks, 2);
    const RunConfig weaker =
        parse_with_data({.flags = {"--model.size", "gpt2"}, .file = "model.blocks = 2"});
    EXPECT_EQ(weaker.model.blocks, 12);
}

TEST(DecaySteps, FollowStepsUnlessTheyAreGiven) {
    EXPECT_EQ(parse_with_data({.flags = {"--steps", "77"}}).optimizer.decay_steps, 77);
    const RunConfig config =
        parse_with_data({.flags = {"--steps", "77"}, .file = "optimizer.decay_steps = 0\n"});
    EXPECT_EQ(config.optimizer.decay_steps, 0);
}

TEST(ValidationShare, IsNothingWhereAValidationFileIsNamed) {
    const RunConfig config = parse_with_data(
        {.flags = {"--data.validation", "v.txt", "--data.validation_share", "0.5"}});
    EXPECT_EQ(config.data.validation_share, 0);
    EXPECT_EQ(parse_with_data({}).data.validation_share, 0.1);
}

TEST(Choices, AreReadByTheirWords) {
    const RunConfig config =
        parse_with_data({.flags = {"--model.tied=false", "--precision=fp64", "--data.format=tokens",
                                   "--recompute=all", "--device=reference"}});
    EXPECT_EQ(config.model.tying, model::Tying::untied);
    EXPECT_EQ(config.precision, device::Precision::fp64);
    EXPECT_EQ(config.data.format, data::Format::tokens);
    EXPECT_EQ(config.recompute, engine::Recompute::all);
    EXPECT_EQ(message_of({.flags = {"--precision", "fp16"}}),
              "--precision=fp16 (no such choice), take fp32|fp64|bf16");
    EXPECT_EQ(message_of({.flags = {"--model.tied", "yes"}}),
              "--model.tied=yes (no such choice), take true|false");
    EXPECT_EQ(message_of({.flags = {"--model.size", "gpt2-x"}}),
              "--model.size=gpt2-x (no such size), did you mean gpt2-xl?");
    EXPECT_THAT(message_of({.flags = {"--model.size", "enormous-transformer"}}),
                HasSubstr("(no such size), `rhizome train --help` lists the sizes"));
}

// --- names ---

TEST(UnknownKeys, AreErrorsInAllThreeSourcesAndNameTheNearest) {
    EXPECT_EQ(message_of({.flags = {"--model.blokcs", "4"}}),
              "--model.blokcs (no such key), did you mean --model.blocks?");
    EXPECT_EQ(message_of({.environment = {{"RHIZOME_MODEL_BLOKCS", "4"}}}),
              "RHIZOME_MODEL_BLOKCS (no such key), did you mean RHIZOME_MODEL_BLOCKS?");
    EXPECT_EQ(message_of({.file = "\n[model]\nblokcs = 4\n"}),
              "run.conf:3: model.blokcs (no such key), did you mean model.blocks?");
    EXPECT_EQ(message_of({.flags = {"--something-else-entirely=4"}}),
              "--something-else-entirely (no such key), `rhizome train --help` lists all");
    EXPECT_EQ(message_of({.flags = {"--blocks", "4"}}),
              "--blocks (no such key), did you mean --model.blocks?");
    EXPECT_EQ(message_of({.flags = {"--microbatch-size=4"}}),
              "--microbatch-size (no such key), did you mean --microbatch_size?");
}

TEST(UnknownKeys, IncludeTheBeginningsOfKnownOnes) {
    EXPECT_EQ(message_of({.flags = {"--model.bl", "4"}}),
              "--model.bl (no such key), did you mean --model.blocks?");
    EXPECT_EQ(message_of({.flags = {"--model.bl=4"}}),
              "--model.bl (no such key), did you mean --model.blocks?");
    EXPECT_EQ(message_of({.flags = {"--conf", "run.conf"}}),
              "--conf (no such key), did you mean --config?");
    EXPECT_EQ(message_of({.flags = {"--MODEL.BLOCKS=4"}}).substr(0, 30),
              "--MODEL.BLOCKS (no such key), ");
}

TEST(UnknownKeys, AreReportedBeforeWhatIsWrongWithTheirValue) {
    EXPECT_THAT(message_of({.flags = {"--model.bl="}}), HasSubstr("no such key"));
    EXPECT_THAT(message_of({.file = "model.bl =\n"}), HasSubstr("no such key"));
    EXPECT_THAT(message_of({.environment = {{"RHIZOME_MODEL_BL", ""}}}), HasSubstr("no such key"));
}

TEST(TheConfigurationFile, IsNamedByAFlagAlone) {
    EXPECT_THAT(message_of({.environment = {{"RHIZOME_CONFIG", "run.conf"}}}),
                HasSubstr("RHIZOME_CONFIG (no such key)"));
    EXPECT_THAT(message_of({.file = "config = other.conf\n"}), HasSubstr("config (no such key)"));
}

TEST(Environment, OfOthersIsLeftAlone) {
    EXPECT_EQ(message_of({.environment = {{"PATH", "/bin"},
                                          {"LANES", "x"},
                                          {"rhizome_lanes", "x"},
                                          {"RHIZOME", "x"},
                                          {"RHIZOMES_LANES", ""}}}),
              "");
}

TEST(Environment, OfTheScriptsIsReserved) {
    EXPECT_EQ(message_of({.environment = {{"RHIZOME_SETUP", "module load gcc"}}}), "");
    EXPECT_THAT(message_of({.environment = {{"RHIZOME_", "x"}}}), HasSubstr("no such key"));
}

// --- values that are missing, doubled or misplaced ---

TEST(Values, MayBeJoinedToTheFlagOrFollowIt) {
    EXPECT_EQ(parse_with_data({.flags = {"--model.blocks=3"}}).model.blocks, 3);
    EXPECT_EQ(parse_with_data({.flags = {"--model.blocks", "3"}}).model.blocks, 3);
}

TEST(Values, ThatAreMissingAreErrors) {
    EXPECT_EQ(message_of({.flags = {"--lanes="}}), "--lanes (has no value), write --lanes=VALUE");
    EXPECT_EQ(message_of({.flags = {"--lanes", ""}}),
              "--lanes (has no value), give one or leave the key out");
    EXPECT_EQ(message_of({.environment = {{"RHIZOME_LANES", ""}}}),
              "RHIZOME_LANES (has no value), give one or leave the key out");
    EXPECT_EQ(message_of({.file = "lanes =   # none\n"}),
              "run.conf:1: lanes (has no value), give one or leave the key out");
    EXPECT_THAT(
        [] { (void)parse({.flags = {"--data.train", "x", "--lanes"}}); },
        ::testing::ThrowsMessage<ConfigError>("--lanes (has no value), write --lanes=VALUE"));
}

TEST(Values, ThatLookLikeAFlagAreErrorsUnlessJoinedToTheirs) {
    EXPECT_EQ(message_of({.flags = {"--lanes", "--seed", "1"}}),
              "--lanes (no value: `--seed` looks like a flag), write --lanes=VALUE");
    EXPECT_EQ(
        message_of({.flags = {"--data.validation", "-h"}}),
        "--data.validation (no value: `-h` looks like a flag), write --data.validation=VALUE");
    EXPECT_THAT(message_of({.flags = {"--lanes", "--"}}), HasSubstr("looks like a flag"));
    EXPECT_EQ(parse_with_data({.flags = {"--data.validation=--v"}}).data.validation, "--v");
    EXPECT_EQ(message_of({.flags = {"--seed", "-1"}}),
              "--seed=-1 (outside 0..18446744073709551615), take a whole number in that range");
}

TEST(Values, WithoutAFlagAreErrors) {
    EXPECT_EQ(message_of({.flags = {"book.txt"}}),
              "`book.txt` (belongs to no flag), write --key value or --key=value");
    EXPECT_THAT(message_of({.flags = {"--lanes", "2", "4"}}),
                HasSubstr("`4` (belongs to no flag)"));
    EXPECT_THAT(message_of({.flags = {"-x"}}), HasSubstr("`-x` (belongs to no flag)"));
    EXPECT_THAT(message_of({.flags = {""}}), HasSubstr("`` (belongs to no flag)"));
    EXPECT_THAT(message_of({.flags = {"--"}}), HasSubstr("belongs to no flag"));
    EXPECT_THAT(message_of({.flags = {"--=4"}}), HasSubstr("belongs to no flag"));
}

TEST(Keys, GivenTwiceInOneSourceAreErrors) {
    EXPECT_EQ(message_of({.flags = {"--lanes", "2", "--lanes=4"}}),
              "--lanes=4 (given before: --lanes=2), keep one");
    EXPECT_EQ(message_of({.environment = {{"RHIZOME_LANES", "2"}, {"RHIZOME_LANES", "2"}}}),
              "RHIZOME_LANES=2 (given before: RHIZOME_LANES=2), keep one");
    EXPECT_EQ(message_of({.file = "model.heads = 2\n[model]\nheads = 4\n"}),
              "run.conf:3: model.heads=4 (given before: run.conf:1: model.heads=2), keep one");
    EXPECT_THAT(message_of({.flags = {"--config", "run.conf"}, .file = "\n"}),
                HasSubstr("--config=run.conf (given before"));
}

TEST(Messages, NameThePlaceOfAWrongValue) {
    EXPECT_EQ(message_of({.flags = {"--model.blocks", "1e3"}}),
              "--model.blocks=1e3 (no whole number), write 1000");
    EXPECT_EQ(message_of({.environment = {{"RHIZOME_MODEL_BLOCKS", "0"}}}),
              "RHIZOME_MODEL_BLOCKS=0 (outside 1..65532), take a whole number in that range");
    EXPECT_EQ(message_of({.file = "# a run\n\nmodel.dropout = 1\n"}),
              "run.conf:3: model.dropout=1 (must be in [0, 1)), take a number in that range");
}

TEST(Messages, AreReportedEvenWhereAStrongerSourceWouldHaveWon) {
    EXPECT_THAT(message_of({.flags = {"--lanes=2"}, .file = "lanes = two\n"}),
                HasSubstr("run.conf:1: lanes=two"));
}

TEST(EveryKey, SaysWhatIsWrongInTheSameForm) {
    for (const Key& key : keys()) {
        if (key.takes == "PATH") continue;
        EXPECT_THAT(
            message_of({.flags = {"--" + key.name + "=\x01?"}}),
            AllOf(HasSubstr("--" + key.name + "=\\x01? ("), MatchesRegex(".* \\(.*\\), .*")));
        const std::string variable = variable_of(key.name);
        EXPECT_THAT(message_of({.environment = {{variable, "?"}}}),
                    AllOf(HasSubstr(variable + "=? ("), MatchesRegex(".* \\(.*\\), .*")));
        EXPECT_THAT(
            message_of({.file = key.name + "=?"}),
            AllOf(HasSubstr("run.conf:1: " + key.name + "=? ("), MatchesRegex(".* \\(.*\\), .*")));
    }
}

// --- files ---

TEST(ConfigurationFiles, HaveSectionsCommentsAndBlanks) {
    const RunConfig config = parse_with_data({.file = "\xEF\xBB\xBF# first\r\n"
                                                      "  seed=5 # why not\r\n"
                                                      "\r\n"
                                                      "[model]   # the network\r\n"
                                                      "\tblocks   =   3\r\n"
                                                      "[optimizer]\r\n"
                                                      "beta1 = 0.8"});
    EXPECT_EQ(config.seed, 5U);
    EXPECT_EQ(config.model.blocks, 3);
    EXPECT_EQ(config.optimizer.beta1, 0.8);
}

TEST(ConfigurationFiles, MayBeEmpty) {
    EXPECT_EQ(message_of({.flags = {"--config", "run.conf"}}), "");
    EXPECT_EQ(message_of({.file = "\n# nothing\n"}), "");
}

TEST(ConfigurationFiles, KeepBlanksAndEqualsSignsInsideAPath) {
    const RunConfig config = parse_with_data({.file = "data.validation = my books/a=b.txt\n"});
    EXPECT_EQ(config.data.validation, "my books/a=b.txt");
}

TEST(ConfigurationFiles, WithLinesThatAreNeitherKeyNorSectionAreErrors) {
    const std::string hint = "` (neither key = value nor [section]), mend the line";
    EXPECT_EQ(message_of({.file = "seed = 1\nmodel.blocks 4\n"}),
              "run.conf:2: `model.blocks 4" + hint);
    EXPECT_EQ(message_of({.file = "[model\n"}), "run.conf:1: `[model" + hint);
    EXPECT_EQ(message_of({.file = "--lanes\n"}), "run.conf:1: `--lanes" + hint);
    EXPECT_EQ(message_of({.file = "[]\n"}), "run.conf:1: [] (names no section), name one");
    EXPECT_THAT(message_of({.file = "= 4\n"}), HasSubstr("run.conf:1: = (no such key)"));
    EXPECT_THAT(message_of({.file = "[model]\n= 4\n"}), HasSubstr("model. (no such key)"));
    EXPECT_THAT(message_of({.file = std::string{"\0\0", 2}}), HasSubstr("\\x00\\x00"));
}

TEST(ConfigurationFiles, DoNotCutAValueAtAHash) {
    EXPECT_THAT(message_of({.file = "data.validation = a#b.txt\n"}),
                HasSubstr("run.conf:1: `data.validation = a#b.txt` (# starts a comment)"));
    EXPECT_THAT(message_of({.flags = {"--data.validation", "a#b.txt"}}),
                HasSubstr("(# starts a comment in a configuration file)"));
}

// --- keys of a state ---

/// As a state has them.
std::string mathematics_of(const RunConfig& config) {
    const std::string text = to_text(config);
    return text.substr(0, text.find("\n#", 1));
}

std::string mathematics_problem(const std::string& text) {
    try {
        (void)parse_mathematics("keys", text);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "";
}

TEST(KeysOfAState, GiveBackWhatDecidedTheWeights) {
    RunConfig config = parse_with_data(
        {.flags = {"--model.size=gpt-3m", "--model.blocks=2", "--seed=77", "--precision=fp64",
                   "--model.dropout=0.1", "--model.tied=false", "--steps=40", "--threads=3"}});
    const RunConfig read = parse_mathematics("keys", mathematics_of(config));
    EXPECT_EQ(read.model, config.model);
    EXPECT_EQ(mathematics_digest(read, "data"), mathematics_digest(config, "data"));
    EXPECT_EQ(read.threads, 1);
}

TEST(KeysOfAState, MayBeThoseOfARunOfAnyLength) {
    // With the default of 1000 steps these would be more tokens than are counted.
    const RunConfig config = parse_with_data(
        {.flags = {"--steps=1", "--microbatches=2147483647", "--lanes=1", "--microbatch_size=1",
                   "--model.context=16777216", "--model.channels=1", "--model.heads=1"}});
    EXPECT_EQ(mathematics_problem(mathematics_of(config)), "");
}

TEST(KeysOfAState, MustAllBeThereAndNoOthers) {
    const std::string text = mathematics_of(parse_with_data({}));
    EXPECT_EQ(mathematics_problem(text), "");
    std::string without = text;
    without.erase(without.find("model.heads"), std::string{"model.heads = 4\n"}.size());
    EXPECT_EQ(mathematics_problem(without),
              "keys: model.heads (is missing), give all keys that decide the weights");
    EXPECT_EQ(mathematics_problem(text + "\nthreads = 1\n"),
              "keys: threads (decides no weights), leave it out");
    EXPECT_THAT(mathematics_problem(text + "\nmodel.experts = 8\n"),
                HasSubstr("model.experts (no such key)"));
    EXPECT_THAT(mathematics_problem(text + "\nmodel.heads = 4\n"), HasSubstr("given before"));
    std::string conflict = text;
    conflict.replace(conflict.find("model.heads = 4"), 15, "model.heads = 5");
    EXPECT_THAT(mathematics_problem(conflict), HasSubstr("model.heads=5 (does not divide"));
    EXPECT_NE(mathematics_problem(""), "");
}

class ConfigFileOnDisk : public ::testing::Test {
  public:
    ConfigFileOnDisk() { std::filesystem::create_directories(folder_); }
    ~ConfigFileOnDisk() override { std::filesystem::remove_all(folder_); }
    ConfigFileOnDisk(const ConfigFileOnDisk&) = delete;
    ConfigFileOnDisk& operator=(const ConfigFileOnDisk&) = delete;

  protected:
    [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }
    std::string write(const std::string& name, const std::string& content) {
        std::ofstream{path(name), std::ios::binary} << content;
        return path(name);
    }
    static std::string problem(const std::string& path) {
        try {
            (void)read_config_file(path);
        } catch (const ConfigError& error) {
            return error.what();
        }
        return "";
    }

  private:
    std::filesystem::path folder_ = std::filesystem::path{::testing::TempDir()} /
                                    ("cli_options_test." + std::to_string(::getpid()));
};

TEST_F(ConfigFileOnDisk, IsReadWhole) {
    const std::string content = "seed = 1\r\n# \xC3\xA4\n";
    EXPECT_EQ(read_config_file(write("run.conf", content)), content);
    EXPECT_EQ(read_config_file(write("empty.conf", "")), "");
}

TEST_F(ConfigFileOnDisk, ThatCannotBeReadIsAnError) {
    EXPECT_EQ(problem(path("missing.conf")),
              "--config=" + path("missing.conf") +
                  " (cannot be read: No such file or directory), check its name and rights");
    EXPECT_EQ(problem(path("")), "--config=" + path("") + " (is a folder), name a file");
    EXPECT_THAT(problem(write("run.conf", "") + "/x"), HasSubstr("Not a directory"));
    EXPECT_THAT(problem(write("data.bin", std::string(2'000'000, 'x'))),
                HasSubstr("(larger than a megabyte), name a configuration file"));
}

TEST_F(ConfigFileOnDisk, WithoutRightsIsAnError) {
    if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
    const std::string file = write("secret.conf", "seed = 1\n");
    std::filesystem::permissions(file, std::filesystem::perms::none);
    EXPECT_THAT(problem(file), HasSubstr("(cannot be read: Permission denied)"));
}

}  // namespace
}  // namespace rhizome::cli
