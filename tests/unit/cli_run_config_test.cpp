#include "cli/run_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cli/keys.hpp"
#include "core/text.hpp"
#include "unit/cli_parse.hpp"

namespace rhizome::cli {
namespace {

using ::testing::HasSubstr;

// --- the table ---

// The list is part of the contract with everybody who has a configuration file. A mathematics key
// that becomes layout, or the reverse, changes what the digest promises.
TEST(Keys, AreThoseOfTheGoldenList) {
    std::vector<std::string> lines;
    for (const Key& key : keys()) {
        lines.push_back(key.name +
                        (key.kind == KeyKind::mathematics ? " mathematics\n" : " layout\n"));
    }
    std::sort(lines.begin(), lines.end());
    std::string list;
    for (const std::string& line : lines) list += line;

    std::ostringstream golden;
    golden << std::ifstream{RHIZOME_TESTS "/golden/keys.txt"}.rdbuf();
    EXPECT_EQ(list, golden.str());
}

TEST(Keys, HaveEnvironmentVariablesOfTheirOwn) {
    std::map<std::string, std::string> key_of;
    for (const Key& key : keys()) {
        const auto [place, is_new] = key_of.emplace(variable_of(key.name), key.name);
        EXPECT_TRUE(is_new) << key.name << " and " << place->second << " are " << place->first;
        EXPECT_EQ(place->first.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"),
                  std::string::npos);
        EXPECT_NE(place->first, "RHIZOME_SETUP");
        EXPECT_NE(place->first, "RHIZOME_CONFIG");
    }
    EXPECT_EQ(variable_of("model.blocks"), "RHIZOME_MODEL_BLOCKS");
    EXPECT_EQ(variable_of("optimizer.beta1"), "RHIZOME_OPTIMIZER_BETA1");
}

TEST(Keys, MayBeGivenInEverySourceWithTheSameResult) {
    const RunConfig other = parse_with_data({.flags = {"--seed=9", "--model.size=gpt-0.8m"}});
    for (const Key& key : keys()) {
        const std::string value = key.print(other);
        if (value.empty() || key.name == "data.train") continue;
        const RunConfig config = parse_with_data({.flags = {"--" + key.name, value}});
        EXPECT_EQ(parse_with_data({.environment = {{variable_of(key.name), value}}}), config);
        EXPECT_EQ(parse_with_data({.file = key.name + " = " + value}), config);
    }
}

TEST(Sizes, HaveTheParametersOfTheirPapers) {
    const auto count = [](std::string_view name) {
        const auto size = std::find_if(model::gpt_sizes.begin(), model::gpt_sizes.end(),
                                       [name](const auto& entry) { return entry.name == name; });
        return size == model::gpt_sizes.end() ? 0 : parameters(*size);
    };
    EXPECT_EQ(count("gpt2"), 124'439'808);  // as the published weights
    EXPECT_EQ(count("gpt2-medium"), 354'823'168);
    EXPECT_EQ(count("gpt2-large"), 774'030'080);
    EXPECT_EQ(count("gpt2-xl"), 1'557'611'200);
}

TEST(Sizes, AreFreeOfConflicts) {
    for (const model::GptSize& size : model::gpt_sizes) {
        for (const auto* dropout : {"0", "0.1"}) {
            EXPECT_EQ(message_of({.flags = {"--model.size", std::string{size.name},
                                            "--model.dropout", dropout}}),
                      "");
        }
    }
}

// --- text ---

/// A configuration with every key at a random value of its kind.
RunConfig random_config(std::mt19937_64& random) {
    const auto below = [&random](std::int64_t limit) {
        return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
    };
    const auto count = [&below](std::int64_t limit) { return std::to_string(1 + below(limit)); };
    const auto share = [&random] {
        return rhizome::to_text(static_cast<double>(random() >> 11) / 9007199254740992.0);
    };
    const std::int64_t lanes = 1 + below(9);
    const std::int64_t heads = 1 + below(9);
    const std::int64_t warmup = below(1000);
    Arguments flags{"--seed=" + std::to_string(random()),
                    "--lanes=" + std::to_string(lanes),
                    "--microbatches=" + std::to_string(lanes * (1 + below(9))),
                    "--model.heads=" + std::to_string(heads),
                    "--model.channels=" + std::to_string(heads * (1 + below(50))),
                    "--model.vocabulary=" + std::to_string(256 + below(60000)),
                    "--model.blocks=" + count(100),
                    "--model.context=" + count(2000),
                    "--model.dropout=" + share(),
                    "--microbatch_size=" + count(64),
                    "--chunk_elements=" + count(1 << 30),
                    "--data.validation_share=" + share(),
                    "--optimizer.learning_rate=" + count(9) + "e-3",
                    "--optimizer.final_learning_rate=" + share() + "e-3",
                    "--optimizer.warmup_steps=" + std::to_string(warmup),
                    "--optimizer.beta1=" + share(),
                    "--optimizer.beta2=" + share(),
                    "--optimizer.epsilon=" + count(9) + "e-9",
                    "--optimizer.weight_decay=" + share(),
                    "--optimizer.clip_norm=" + share(),
                    "--steps=" + std::to_string(warmup + 1 + below(100'000)),
                    "--threads=" + count(1024),
                    "--evaluate.interval=" + std::to_string(below(500)),
                    "--evaluate.microbatches=" + count(500),
                    "--log.interval=" + count(500),
                    "--data.train=books/" + count(1000) + " [*] = a.txt"};
    if (below(2) == 0) flags.emplace_back("--model.tied=false");
    if (below(2) == 0) flags.emplace_back("--precision=fp64");
    if (below(2) == 0) flags.emplace_back("--data.format=tokens");
    if (below(2) == 0) flags.emplace_back("--recompute=all");
    if (below(2) == 0) flags.emplace_back("--data.validation=v.txt");
    if (below(2) == 0) flags.emplace_back("--model.size=gpt2-medium");
    return parse({.flags = flags});
}

TEST(Text, IsAConfigurationFileThatGivesTheSameConfiguration) {
    std::mt19937_64 random{20240901};
    std::set<std::string> digests;
    for (int i = 0; i < 500; ++i) {
        const RunConfig config = random_config(random);
        const std::string text = to_text(config);
        const RunConfig again = parse({.file = text});
        ASSERT_EQ(again, config) << text;
        ASSERT_EQ(to_text(again), text);
        ASSERT_EQ(mathematics_digest(again, "t"), mathematics_digest(config, "t"));
        digests.insert(mathematics_digest(config, "t"));
    }
    EXPECT_EQ(digests.size(), 500U);
}

TEST(Text, GroupsTheKeysAndLeavesOutWhatIsNotGiven) {
    const std::string text = to_text(parse_with_data({}));
    EXPECT_EQ(text.find("# Mathematics"), 0U);
    EXPECT_LT(text.find("lanes = 4\n"), text.find("# Layout"));
    EXPECT_GT(text.find("threads = 1\n"), text.find("# Layout"));
    EXPECT_EQ(text.find("model.size"), std::string::npos);
    EXPECT_EQ(text.find("data.validation ="), std::string::npos);
}

// --- digest ---

TEST(Digest, ChangesWithEveryMathematicsKeyAndWithNoLayoutKey) {
    const RunConfig plain = parse_with_data({.flags = {"--optimizer.decay_steps=1000"}});
    const std::string digest = mathematics_digest(plain, "t");
    const std::map<std::string, std::string> others{
        {"model.blocks", "5"},
        {"model.channels", "128"},
        {"model.heads", "2"},
        {"model.context", "65"},
        {"model.vocabulary", "257"},
        {"model.tied", "false"},
        {"model.dropout", "0.1"},
        {"precision", "fp64"},
        {"data.format", "tokens"},
        {"data.validation_share", "0.2"},
        {"seed", "2"},
        {"microbatch_size", "9"},
        {"microbatches", "16"},
        {"lanes", "2"},
        {"chunk_elements", "65537"},
        {"optimizer.learning_rate", "0.002"},
        {"optimizer.final_learning_rate", "0.0002"},
        {"optimizer.warmup_steps", "1"},
        {"optimizer.decay_steps", "1001"},
        {"optimizer.beta1", "0.8"},
        {"optimizer.beta2", "0.8"},
        {"optimizer.epsilon", "1e-7"},
        {"optimizer.weight_decay", "0"},
        {"optimizer.clip_norm", "0"},
        {"data.train", "elsewhere.txt"},
        {"steps", "2000"},
        {"threads", "2"},
        {"recompute", "all"},
        {"evaluate.interval", "0"},
        {"evaluate.microbatches", "1"},
        {"save.interval", "7"},
        {"save.keep", "7"},
        {"save.keep_every", "7"},
        {"from", "a/step-00000007"},
        {"log.interval", "1"},
        {"timeline", "3-4"},
        {"device", "paced"},
        {"pipelines", "2x3"},
        {"parts", "2"},
        {"cut", "1,2"},
        {"costs", "gpt.costs"},
        {"style", "gpipe"},
        {"owners", "all"},
        {"bounds.stopped_s", "11"},
        {"bounds.stuck_s", "121"},
        {"bounds.wait_s", "301"},
        {"bounds.repair_s", "3601"},
        {"losses.in_a_row", "7"},
        {"losses.calm_s", "7"},
        {"faults", "kill@1/2/C"},
        {"pace.flops_per_s", "1e12"},
        {"pace.link_bytes_per_s", "1e10"},
        {"pace.link_latency_s", "0"},
    };
    for (const Key& key : keys()) {
        if (key.name == "model.size" || key.name == "data.validation") continue;  // below
        ASSERT_TRUE(others.contains(key.name)) << key.name;
        RunConfig changed = plain;
        ASSERT_FALSE(key.set(changed, others.at(key.name))) << key.name;
        EXPECT_NE(changed, plain) << key.name;
        EXPECT_EQ(mathematics_digest(changed, "t") != digest, key.kind == KeyKind::mathematics)
            << key.name;
    }
    EXPECT_NE(mathematics_digest(plain, "u"), digest);
}

TEST(Digest, IsOfTheNumbersAndNotOfHowTheyWereGiven) {
    const RunConfig named = parse_with_data({.flags = {"--model.size=gpt2", "--seed=07"}});
    const RunConfig spelled = parse_with_data(
        {.environment = {{"RHIZOME_MODEL_BLOCKS", "12"}, {"RHIZOME_MODEL_CHANNELS", "768"}},
         .file = "seed = 7\n[model]\nheads = 12\ncontext = 1024\nvocabulary = 50257\n"
                 "dropout = 0e5\n[optimizer]\nlearning_rate = 1.0e-3\n"});
    EXPECT_NE(named, spelled);  // by the name of the size alone
    EXPECT_EQ(mathematics_digest(named, "t"), mathematics_digest(spelled, "t"));
}

TEST(Digest, CountsTheShareOfAValidationSetOnlyIfOneIsSplitOff) {
    RunConfig split = parse_with_data({.flags = {"--data.validation_share=0.2"}});
    RunConfig named = parse_with_data({.flags = {"--data.validation=v.txt"}});
    const RunConfig whole = parse_with_data({.flags = {"--data.validation_share=0"}});
    EXPECT_NE(mathematics_digest(split, "t"), mathematics_digest(whole, "t"));
    EXPECT_EQ(mathematics_digest(named, "t"), mathematics_digest(whole, "t"));
    named.data.validation_share = 0.3;  // as only a program could do
    EXPECT_EQ(mathematics_digest(named, "t"), mathematics_digest(whole, "t"));
}

// States of earlier versions carry such digests: whoever changes this number makes them foreign.
TEST(Digest, OfTheDefaultsStaysWhatItWas) {
    EXPECT_EQ(mathematics_digest(parse_with_data({}), "t"), "ffd43c79746bc25f9da991ebaa69c965");
}

// --- conflicts ---

TEST(Conflicts, NameTheNearestDivisorsAndThePlaces) {
    EXPECT_EQ(message_of({.flags = {"--lanes=3"}}),
              "lanes=3 (does not divide microbatches=8), take 2 or 4 [--lanes]");
    EXPECT_EQ(message_of({.flags = {"--lanes=3"}, .file = "\nmicrobatches = 16\n"}),
              "lanes=3 (does not divide microbatches=16), take 2 or 4 "
              "[--lanes; run.conf:2: microbatches]");
    EXPECT_EQ(message_of({.flags = {"--lanes=9"}}),
              "lanes=9 (does not divide microbatches=8), take 8 [--lanes]");
    EXPECT_EQ(message_of({.flags = {"--lanes=5", "--microbatches=2147483647"}}),
              "lanes=5 (does not divide microbatches=2147483647), take 1 or 2147483647 "
              "[--lanes; --microbatches]");
    EXPECT_EQ(message_of({.flags = {"--model.heads=5"}}),
              "model.heads=5 (does not divide model.channels=64), take 4 or 8 [--model.heads]");
    EXPECT_EQ(message_of({.flags = {"--model.heads=5"}, .file = "model.size = gpt2"}),
              "model.heads=5 (does not divide model.channels=768), take 4 or 6 "
              "[--model.heads; run.conf:1: model.size]");
}

TEST(Conflicts, AreFoundInTheLearningRate) {
    EXPECT_THAT(message_of({.flags = {"--optimizer.warmup_steps=1001"}}),
                HasSubstr("optimizer.warmup_steps=1001 (more than optimizer.decay_steps=1000), "));
    EXPECT_EQ(message_of({.flags = {"--optimizer.warmup_steps=1000"}}), "");
    EXPECT_THAT(message_of({.flags = {"--optimizer.final_learning_rate=0.0011"}}),
                HasSubstr("(more than optimizer.learning_rate=0.001), "));
    EXPECT_EQ(message_of({.flags = {"--optimizer.final_learning_rate=0.001"}}), "");
    EXPECT_THAT(message_of({.flags = {"--optimizer.learning_rate=0"}}), HasSubstr("must be > 0"));
    EXPECT_THAT(message_of({.flags = {"--optimizer.beta1=1"}}), HasSubstr("in [0, 1)"));
    EXPECT_THAT(message_of({.flags = {"--optimizer.beta2=-0.1"}}), HasSubstr("in [0, 1)"));
    EXPECT_THAT(message_of({.flags = {"--model.dropout=1"}}), HasSubstr("in [0, 1)"));
}

TEST(Conflicts, IncludeAnEpsilonThatThePrecisionCannotHold) {
    EXPECT_THAT(message_of({.flags = {"--optimizer.epsilon=1e-60"}}),
                HasSubstr("optimizer.epsilon=1e-60 (is 0 in precision=fp32), "));
    EXPECT_EQ(message_of({.flags = {"--optimizer.epsilon=1e-60", "--precision=fp64"}}), "");
}

TEST(Conflicts, IncludeATimelineBehindTheLastStep) {
    EXPECT_EQ(message_of({.flags = {"--timeline=9-9", "--steps=9"}}),
              "timeline=9-9 (the last step is 8), take earlier ones [--timeline; --steps]");
    EXPECT_EQ(message_of({.flags = {"--timeline=8-20", "--steps=9"}}), "");
}

TEST(Conflicts, KeepTheVocabularyToTheFormat) {
    EXPECT_THAT(message_of({.flags = {"--model.vocabulary=255"}}), HasSubstr("take at least 256"));
    EXPECT_EQ(message_of({.flags = {"--model.vocabulary=255", "--data.format=tokens"}}), "");
    EXPECT_EQ(message_of({.flags = {"--model.vocabulary=65536", "--data.format=tokens"}}), "");
    EXPECT_THAT(message_of({.flags = {"--model.vocabulary=65537", "--data.format=tokens"}}),
                HasSubstr("take at most 65536"));
}

TEST(Conflicts, KeepElementsWithinTheReachOfRandomNumbers) {
    // 2^34 elements are the last that word 0 of the counter can number.
    const Arguments wide{"--model.channels=16384", "--model.heads=1", "--model.context=1"};
    const auto with = [](Arguments flags, const Arguments& more) {
        flags.insert(flags.end(), more.begin(), more.end());
        return message_of({.flags = flags});
    };
    EXPECT_EQ(with(wide, {"--model.vocabulary=1048576"}), "");
    EXPECT_THAT(with(wide, {"--model.vocabulary=1048577"}),
                HasSubstr("model.vocabulary=1048577 times model.channels=16384 (more than "
                          "17179869184 elements in a tensor, as far as random numbers reach), "));
    EXPECT_THAT(message_of({.flags = {"--model.context=16777216", "--model.channels=1025",
                                      "--model.heads=1"}}),
                HasSubstr("model.context=16777216 times model.channels=1025 (more than"));
    // 8 * 4 * T * T, but only if something is dropped.
    EXPECT_EQ(message_of({.flags = {"--model.context=23170", "--model.dropout=0.1"}}), "");
    EXPECT_THAT(
        message_of({.flags = {"--model.context=23171", "--model.dropout=0.1"}}),
        HasSubstr("times model.context=23171 (more than 17179869184 elements in a dropout"));
    EXPECT_EQ(message_of({.flags = {"--model.context=23171"}}), "");
    EXPECT_THAT(message_of({.flags = {"--microbatch_size=4194305", "--model.dropout=0.1"}}),
                HasSubstr("microbatch_size=4194305 times model.context=64 times "));
}

TEST(Conflicts, KeepCountsWithinTheirIntegers) {
    EXPECT_THAT(message_of({.flags = {"--microbatch_size=2147483647"}}),
                HasSubstr("as far as memory is counted"));
    EXPECT_THAT(
        message_of({.flags = {"--model.context=16777216", "--model.channels=1", "--model.heads=1",
                              "--model.vocabulary=2147483647", "--microbatch_size=2147483647"}}),
        HasSubstr("(more than"));
    EXPECT_THAT(
        message_of({.flags = {"--microbatch_size=2", "--microbatches=2147483647", "--lanes=1"}}),
        HasSubstr("samples in a step"));
    EXPECT_THAT(message_of({.flags = {"--microbatch_size=1", "--microbatches=2147483647",
                                      "--lanes=1", "--steps=2147483647"}}),
                HasSubstr("tokens in a run"));
    EXPECT_THAT(message_of({.flags = {"--model.vocabulary=65536", "--model.channels=65535",
                                      "--model.heads=1", "--chunk_elements=7"}}),
                HasSubstr("take at least 8"));
    EXPECT_EQ(message_of({.flags = {"--model.vocabulary=65536", "--model.channels=65535",
                                    "--model.heads=1", "--chunk_elements=8"}}),
              "");
}

TEST(TimelineKey, IsARangeOfStepsOrNone) {
    const Key* key = find_key("timeline");
    ASSERT_NE(key, nullptr);
    RunConfig config;
    EXPECT_EQ(key->print(config), "none");
    ASSERT_FALSE(key->set(config, "0-2147483647"));
    EXPECT_EQ(config.timeline, (StepRange{0, 2147483647}));
    EXPECT_EQ(key->print(config), "0-2147483647");
    for (const std::string_view wrong : {"", "3", "3-", "-3", "4-3", "3-4-5", "a-b", "3 - 4",
                                         "-1-3", "0-2147483648", "all", "None"}) {
        EXPECT_TRUE(key->set(config, wrong)) << wrong;
        EXPECT_EQ(config.timeline, (StepRange{0, 2147483647})) << wrong;
    }
    ASSERT_FALSE(key->set(config, "none"));
    EXPECT_FALSE(config.timeline.has_value());
}

}  // namespace
}  // namespace rhizome::cli
