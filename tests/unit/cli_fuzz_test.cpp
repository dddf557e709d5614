// Whatever is written in the three sources, the outcome is a configuration or a ConfigError in the
// form of the house: no other exception, no crash, no silence. Seeds make every case repeatable.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "cli/keys.hpp"
#include "unit/cli_parse.hpp"

namespace rhizome::cli {
namespace {

class Mutator {
  public:
    explicit Mutator(std::uint64_t seed) : random_{seed} {}

    std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_()) % limit; }

    /// A few characters changed, put in, left out or doubled.
    std::string change(std::string text) {
        static const std::string likely = "=-#[]. \n\t'\"+e0_%x,\\*?";
        for (std::size_t times = 1 + below(3); times > 0; --times) {
            const std::size_t at = below(text.size() + 1);
            const char c =
                below(4) == 0 ? static_cast<char>(below(256)) : likely[below(likely.size())];
            switch (below(4)) {
                case 0:
                    text.insert(at, 1, c);
                    break;
                case 1:
                    text.erase(at, 1 + below(3));
                    break;
                case 2:
                    if (at < text.size()) text[at] = c;
                    break;
                default:
                    text.insert(at, text.substr(below(text.size() + 1), 1 + below(8)));
            }
        }
        return text;
    }

    void change(Arguments& list) {
        if (list.empty()) return;
        const std::size_t at = below(list.size());
        switch (below(5)) {
            case 0:
                list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
                break;
            case 1:
                list.insert(list.begin() + static_cast<std::ptrdiff_t>(at),
                            list[below(list.size())]);
                break;
            case 2:
                std::swap(list[at], list[below(list.size())]);
                break;
            default:
                list[at] = change(list[at]);
        }
    }

  private:
    std::mt19937_64 random_;
};

/// "" if there was no error; fails if it is not one of ours.
std::string outcome(const Written& written) {
    try {
        const RunConfig config = parse(written);
        EXPECT_FALSE(find_conflict(config));
        EXPECT_EQ(parse({.file = to_text(config)}), config);
        return "";
    } catch (const ConfigError& error) {
        return error.what();
    }
}

TEST(Mutations, OfAValidRunParseOrSayWhy) {
    const Arguments flags{"--data.train",   "a/b.txt", "--lanes=2",
                          "--model.blocks", "3",       "--optimizer.beta1=0.5",
                          "--seed",         "7",       "--model.size=gpt-3m"};
    const Environment environment{{"HOME", "/"}, {"RHIZOME_STEPS", "50"}, {"RHIZOME_THREADS", "2"}};
    RunConfig config = parse({.flags = flags});
    const std::string file = "[optimizer]\nbeta2 = 0.9 # so\n[log]\ninterval = 5\n";
    const std::string long_file = to_text(config);
    ASSERT_EQ(outcome({flags, environment, file}), "");

    int parsed = 0;
    int refused = 0;
    for (std::uint64_t seed = 0; seed < 2000; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Mutator mutator{seed};
        Written written{flags, environment, mutator.below(2) == 0 ? file : long_file};
        switch (mutator.below(3)) {
            case 0:
                mutator.change(written.flags);
                break;
            case 1: {
                auto& [name, value] = written.environment[1 + mutator.below(2)];
                (mutator.below(2) == 0 ? name : value) =
                    mutator.change(mutator.below(2) == 0 ? name : value);
                break;
            }
            default:
                written.file = mutator.change(written.file);
        }
        const std::string message = outcome(written);
        ASSERT_FALSE(HasFailure());
        (message.empty() ? parsed : refused) += 1;
        if (message.empty()) continue;
        ASSERT_THAT(message, ::testing::ContainsRegex(" \\(.*\\), ."));
        ASSERT_EQ(message.find_first_of("\n\r\t\x1B"), std::string::npos) << message;
        ASSERT_LT(message.size(), 1000U);
    }
    EXPECT_GT(parsed, 100);
    EXPECT_GT(refused, 100);
}

TEST(Noise, NeverParses) {
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
        Mutator mutator{seed};
        std::string noise;
        for (std::size_t size = 1 + mutator.below(60); size > 0; --size) {
            noise += static_cast<char>(mutator.below(256));
        }
        EXPECT_NE(outcome({.flags = {noise}}), "");
        (void)outcome({.flags = {"--data.train=x"}, .file = noise});
        (void)outcome({.flags = {"--data.train=x", "--" + noise}});
    }
}

}  // namespace
}  // namespace rhizome::cli
