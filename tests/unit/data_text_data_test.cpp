#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "core/error.hpp"
#include "data/text_data.hpp"
#include "unit/data_temp_folder.hpp"

namespace rhizome::data {
namespace {

using ::testing::ElementsAre;
using ::testing::ThrowsMessage;

constexpr std::size_t tokens_field = 0;
constexpr std::size_t targets_field = 1;

std::vector<std::int32_t> row(const Dataset& dataset, std::int64_t sample, std::size_t field) {
    const TensorSpec& spec = dataset.fields()[field];
    std::vector<std::int32_t> values(static_cast<std::size_t>(spec.shape.elements()));
    dataset.read(sample, field, std::as_writable_bytes(std::span{values}));
    return values;
}

/// All samples' inputs as one text, with a bar between samples.
std::string inputs(const Dataset& dataset) {
    std::string text;
    for (std::int64_t sample = 0; sample < dataset.samples(); ++sample) {
        if (sample > 0) text += '|';
        for (const std::int32_t token : row(dataset, sample, tokens_field)) {
            text += static_cast<char>(token);
        }
    }
    return text;
}

Datasets open_text(const std::string& train, double share, std::int32_t context = 3) {
    return open_datasets({.train = train, .validation = "", .validation_share = share}, context,
                         256);
}

std::string digest(const std::string& train, double share = 0) {
    return open_text(train, share).train_digest;
}

TEST(TextData, HasTwoFieldsOfOneRowPerSample) {
    const TempFolder folder;
    const Datasets datasets = open_text(folder.write("a.txt", "abcdefg"), 0);
    EXPECT_THAT(datasets.train->fields(), ElementsAre(TensorSpec{"tokens", {3}, DType::i32},
                                                      TensorSpec{"targets", {3}, DType::i32}));
    EXPECT_EQ(datasets.train->loss_terms(0), 3);
}

TEST(TextData, ShiftsTargetsByOneToken) {
    const TempFolder folder;
    const Datasets datasets = open_text(folder.write("a.txt", "abcdefg"), 0);
    ASSERT_EQ(datasets.train->samples(), 2);
    EXPECT_THAT(row(*datasets.train, 0, tokens_field), ElementsAre('a', 'b', 'c'));
    EXPECT_THAT(row(*datasets.train, 0, targets_field), ElementsAre('b', 'c', 'd'));
    EXPECT_THAT(row(*datasets.train, 1, tokens_field), ElementsAre('d', 'e', 'f'));
    EXPECT_THAT(row(*datasets.train, 1, targets_field), ElementsAre('e', 'f', 'g'));
}

TEST(TextData, ReadsTokenFiles) {
    const TempFolder folder;
    const std::string path = folder.write("a.bin", token_file(counting(1000, 9)));
    const Datasets datasets = open_datasets(
        {.train = path, .validation = "", .validation_share = 0.5, .format = Format::tokens}, 4,
        2000);
    EXPECT_THAT(row(*datasets.train, 0, targets_field), ElementsAre(1001, 1002, 1003, 1004));
    EXPECT_THAT(row(*datasets.validation, 0, tokens_field), ElementsAre(1004, 1005, 1006, 1007));
}

TEST(TextData, CountsOnlySamplesWithATargetForEachToken) {
    const TempFolder folder;
    EXPECT_EQ(open_text(folder.write("a.txt", "abcdef"), 0).train->samples(), 1);
    EXPECT_EQ(open_text(folder.write("b.txt", "abcdefg"), 0).train->samples(), 2);
    EXPECT_EQ(open_text(folder.write("c.txt", "abcdefghi"), 0).train->samples(), 2);
}

TEST(TextData, TakesFilesOfAPatternInTheOrderOfTheirNamesAndNeverCrossesThem) {
    const TempFolder folder;
    (void)folder.write("part_b.txt", "BCDEFGHI");  // one token is left over
    (void)folder.write("part_B.txt", "1234");
    (void)folder.write("part_a.txt", "abcdefg");
    (void)folder.write("other.txt", "never seen");
    const Datasets datasets = open_text(folder.path("part_?.txt"), 0);
    EXPECT_EQ(inputs(*datasets.train), "123|abc|def|BCD|EFG");
    EXPECT_THAT(row(*datasets.train, 2, targets_field), ElementsAre('e', 'f', 'g'));
}

TEST(TextData, TakesAnEscapedStarLiterally) {
    const TempFolder folder;
    (void)folder.write("a*.txt", "abcd");
    (void)folder.write("ab.txt", "1234");
    EXPECT_EQ(inputs(*open_text(folder.path("a\\*.txt"), 0).train), "abc");
}

TEST(TextData, SplitsTheLastSamplesOffForValidation) {
    const TempFolder folder;
    (void)folder.write("1.txt", "abcdefghijklm");  // four samples
    (void)folder.write("2.txt", "ABCDEFG");        // two
    const std::string both = folder.path("*.txt");
    const Datasets half = open_text(both, 0.5);
    EXPECT_EQ(inputs(*half.train), "abc|def|ghi");
    EXPECT_EQ(inputs(*half.validation), "jkl|ABC|DEF");
    const Datasets less = open_text(both, 0.49);
    EXPECT_EQ(inputs(*less.train), "abc|def|ghi|jkl");
    EXPECT_EQ(inputs(*less.validation), "ABC|DEF");
    const Datasets most = open_text(both, 0.999);
    EXPECT_EQ(inputs(*most.train), "abc");
}

TEST(TextData, HasNoValidationSetForAShareOfZero) {
    const TempFolder folder;
    const Datasets datasets = open_text(folder.write("a.txt", "abcdefg"), 0);
    EXPECT_EQ(datasets.validation, nullptr);
    EXPECT_EQ(inputs(*datasets.train), "abc|def");
}

TEST(TextData, TakesValidationFromItsOwnFilesAndThenSplitsNothing) {
    const TempFolder folder;
    const std::string train = folder.write("train.txt", "abcdefg");
    (void)folder.write("valid_1.txt", "1234");
    (void)folder.write("valid_2.txt", "5678");
    const Datasets datasets = open_datasets(
        {.train = train, .validation = folder.path("valid_*"), .validation_share = 0.5}, 3, 256);
    EXPECT_EQ(inputs(*datasets.train), "abc|def");
    EXPECT_EQ(inputs(*datasets.validation), "123|567");
}

TEST(TextData, KeepsOneSetAliveWithoutTheOther) {
    const TempFolder folder;
    Datasets datasets = open_text(folder.write("a.txt", "abcdefg"), 0.5);
    datasets.train.reset();
    EXPECT_EQ(inputs(*datasets.validation), "def");
}

TEST(TextDataDigest, IsTheSameForTheSameContentUnderAnotherName) {
    const TempFolder folder;
    EXPECT_EQ(digest(folder.write("a.txt", "abcdefg")), digest(folder.write("b.txt", "abcdefg")));
}

TEST(TextDataDigest, ChangesWithTheContent) {
    const TempFolder folder;
    EXPECT_NE(digest(folder.write("a.txt", "abcdefg")), digest(folder.write("b.txt", "abcdefG")));
    EXPECT_NE(digest(folder.path("a.txt")), digest(folder.write("c.txt", "abcdefghij")));
}

TEST(TextDataDigest, ChangesWithTheBordersAndTheOrderOfFiles) {
    const TempFolder folder;
    (void)folder.write("a1.txt", "abcd");
    (void)folder.write("a2.txt", "efghijk");
    (void)folder.write("b1.txt", "abcdefg");
    (void)folder.write("b2.txt", "hijk");
    (void)folder.write("c1.txt", "efghijk");
    (void)folder.write("c2.txt", "abcd");
    const std::string a = digest(folder.path("a?.txt"));
    EXPECT_NE(a, digest(folder.path("b?.txt")));
    EXPECT_NE(a, digest(folder.path("c?.txt")));
}

TEST(TextDataDigest, CoversWhatTrainingSeesAndNoMore) {
    const TempFolder folder;
    const std::string whole = folder.write("whole.txt", "abcdefghijklm");
    EXPECT_NE(digest(whole, 0), digest(whole, 0.5));
    EXPECT_NE(digest(whole, 0.25), digest(whole, 0.5));
    // Two training samples either way; behind them lie validation samples or unused tokens.
    EXPECT_EQ(digest(whole, 0.5), digest(folder.write("half.txt", "abcdefg")));
    EXPECT_EQ(digest(whole, 0.5), digest(folder.write("rest.txt", "abcdefgXY")));
    // The second file is validation, all of it.
    (void)folder.write("two_1.txt", "abcdefg");
    (void)folder.write("two_2.txt", "ABCDEFG");
    EXPECT_EQ(digest(folder.path("two_?.txt"), 0.5), digest(folder.path("half.txt")));
}

TEST(TextDataErrors, SayThatAPatternMatchesNothing) {
    const TempFolder folder;
    const std::string hint =
        " matches no file (it is a pattern), check the folder, or write \\*, \\? or \\[ for the "
        "characters themselves";
    EXPECT_THAT([&] { open_text(folder.path("*.txt"), 0); },
                ThrowsMessage<DataError>("data.train=" + folder.path("*.txt") + hint));
    EXPECT_THAT([&] { open_text(folder.path("no/*.txt"), 0); },
                ThrowsMessage<DataError>("data.train=" + folder.path("no/*.txt") + hint));
    const std::string train = folder.write("a.txt", "abcd");
    EXPECT_THAT(
        [&] { (void)open_datasets({.train = train, .validation = folder.path("v*")}, 3, 256); },
        ThrowsMessage<DataError>("data.validation=" + folder.path("v*") + hint));
}

TEST(TextDataErrors, SayThatAFolderCannotBeListed) {
    const TempFolder folder;
    ASSERT_EQ(::mkdir(folder.path("closed").c_str(), 0), 0);
    ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
    const uid_t user = ::geteuid();
    constexpr uid_t nobody = 65534;
    if (user == 0 && ::seteuid(nobody) != 0) GTEST_SKIP() << "root cannot become another user here";
    EXPECT_THAT([&] { open_text(folder.path("closed/*.txt"), 0); },
                ThrowsMessage<DataError>("data.train=" + folder.path("closed/*.txt") +
                                         " cannot be expanded (a folder on the way cannot be "
                                         "listed), make the folders readable for this user"));
    ASSERT_EQ(::seteuid(user), 0);
    ASSERT_EQ(::chmod(folder.path("closed").c_str(), 0755), 0);  // so that it can be removed
}

TEST(TextDataErrors, NameTheFileThatIsMissingEmptyOrAFolder) {
    const TempFolder folder;
    EXPECT_THAT([&] { open_text(folder.path("none.txt"), 0); },
                ThrowsMessage<DataError>("data file " + folder.path("none.txt") +
                                         " cannot be opened (No such file or directory), check "
                                         "the path"));
    (void)folder.write("part_1.txt", "abcd");
    (void)folder.write("part_2.txt", "");
    EXPECT_THAT([&] { open_text(folder.path("part_*"), 0); },
                ThrowsMessage<DataError>("data file " + folder.path("part_2.txt") +
                                         " cannot be used (it is empty), name one with content"));
    EXPECT_THAT([&] { open_text(folder.path(), 0); },
                ThrowsMessage<DataError>("data file " + folder.path() +
                                         " cannot be read (it is a folder), name a file, or a "
                                         "pattern for several"));
}

TEST(TextDataErrors, NameTheFileThatIsTooShortForOneSample) {
    const TempFolder folder;
    const std::string text = folder.write("a.txt", "abc");
    EXPECT_THAT([&] { open_text(text, 0); },
                ThrowsMessage<DataError>("data file " + text +
                                         " is too short for one sample (3 tokens, model.context=3 "
                                         "needs 4), lower model.context or name a longer file"));
    const std::string none = folder.write("a.bin", token_file({}));
    EXPECT_THAT(
        [&] {
            (void)open_datasets({.train = none, .validation = "", .format = Format::tokens}, 3, 9);
        },
        ThrowsMessage<DataError>(
            "data file " + none +
            " is too short for one sample (0 tokens, model.context=3 needs 4), "
            "lower model.context or name a longer file"));
}

TEST(TextDataErrors, FindATokenOutsideTheVocabularyInEveryFile) {
    const TempFolder folder;
    const std::string good = folder.write("good.bin", token_file({0, 1, 2, 3, 4}));
    const std::string bad = folder.write("bad.bin", token_file({0, 1, 2, 3, 5}));
    const auto message = "token file " + bad +
                         " does not fit the vocabulary (token 4, counted from 0, is 5, "
                         "model.vocabulary=5), raise model.vocabulary or name a file made for "
                         "this one";
    const auto open = [](const std::string& train, const std::string& validation) {
        (void)open_datasets({.train = train,
                             .validation = validation,
                             .validation_share = 0,
                             .format = Format::tokens},
                            3, 5);
    };
    EXPECT_NO_THROW(open(good, good));
    EXPECT_THAT([&] { open(bad, ""); }, ThrowsMessage<DataError>(message));  // in no sample, even
    EXPECT_THAT([&] { open(good, bad); }, ThrowsMessage<DataError>(message));
}

TEST(TextDataErrors, SayThatTheValidationSetWouldBeEmpty) {
    const TempFolder folder;
    const std::string path = folder.write("a.txt", "abcdefg");
    EXPECT_THAT([&] { open_text(path, 0.25); },
                ThrowsMessage<DataError>("the validation set is empty (data.validation_share=0.25 "
                                         "of 2 samples is less than one), raise the share, set it "
                                         "to 0, or name data.validation"));
}

TEST(TextDataErrors, BlameTheConfigurationForAVocabularyBelowAllBytes) {
    const TempFolder folder;
    const std::string path = folder.write("a.txt", "abcdefg");
    EXPECT_THAT([&] { (void)open_datasets({.train = path, .validation = ""}, 3, 255); },
                ThrowsMessage<ConfigError>("model.vocabulary=255 (data.format=bytes needs 256, one "
                                           "per byte), raise model.vocabulary"));
}

TEST(TextDataErrors, BlameTheConfigurationIfThereIsNoTrainingFile) {
    EXPECT_THAT([] { (void)open_datasets({}, 3, 256); },
                ThrowsMessage<ConfigError>("data.train is empty (there is nothing to train on), "
                                           "name a file or a pattern for several"));
}

}  // namespace
}  // namespace rhizome::data
