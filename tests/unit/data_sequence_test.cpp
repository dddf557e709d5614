#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error.hpp"
#include "data/sequence.hpp"
#include "unit/data_temp_folder.hpp"

namespace rhizome::data {
namespace {

using ::testing::ElementsAre;
using ::testing::ThrowsMessage;

std::vector<std::int32_t> copied(const Sequence& sequence, std::int64_t first, std::size_t count) {
    std::vector<std::int32_t> row(count);
    sequence.copy(first, std::as_writable_bytes(std::span{row}));
    return row;
}

void scan(const Sequence& sequence, std::int32_t vocabulary) {
    Digest digest;
    sequence.scan(vocabulary, 0, digest);
}

std::string digest_of(const Sequence& sequence, std::int64_t digested) {
    Digest digest;
    sequence.scan(65536, digested, digest);
    return digest.hex();
}

TEST(Sequence, TakesEachByteOfTextAsAToken) {
    const TempFolder folder;
    const Sequence text{folder.write("a.txt", "ab\n\xff"), Format::bytes};
    EXPECT_EQ(text.tokens(), 4);
    EXPECT_THAT(copied(text, 0, 4), ElementsAre('a', 'b', '\n', 255));
    EXPECT_THAT(copied(text, 1, 2), ElementsAre('b', '\n'));
}

TEST(Sequence, TakesSixteenBitsOfATokenFileAsAToken) {
    const TempFolder folder;
    const Sequence tokens{folder.write("a.bin", token_file({0, 1, 256, 50256, 65535})),
                          Format::tokens};
    EXPECT_EQ(tokens.tokens(), 5);
    EXPECT_THAT(copied(tokens, 0, 5), ElementsAre(0, 1, 256, 50256, 65535));
    EXPECT_THAT(copied(tokens, 3, 2), ElementsAre(50256, 65535));
}

TEST(Sequence, WritesToRowsThatAreNotAligned) {
    const TempFolder folder;
    const Sequence text{folder.write("a.txt", "ab"), Format::bytes};
    std::vector<std::byte> memory(9);
    text.copy(0, std::span{memory}.subspan(1));
    EXPECT_THAT(memory,
                ElementsAre(std::byte{0}, std::byte{'a'}, std::byte{0}, std::byte{0}, std::byte{0},
                            std::byte{'b'}, std::byte{0}, std::byte{0}, std::byte{0}));
}

TEST(Sequence, RefusesATokenFileThatIsReadAsText) {
    const TempFolder folder;
    const std::string path = folder.write("a.bin", token_file({1, 2, 3}));
    EXPECT_THAT([&] { Sequence(path, Format::bytes); },
                ThrowsMessage<DataError>("data file " + path +
                                         " is no text (it begins with the magic number 20240520 "
                                         "of token files), set data.format=tokens"));
}

TEST(Sequence, RefusesATokenFileWithHalfAHeader) {
    const TempFolder folder;
    const std::string path = folder.write("a.bin", token_file({}).substr(0, 1023));
    EXPECT_THAT([&] { Sequence(path, Format::tokens); },
                ThrowsMessage<DataError>("token file " + path +
                                         " is truncated (1023 bytes, the header alone takes "
                                         "1024), copy or write it again, or set data.format=bytes "
                                         "if it is text"));
}

TEST(Sequence, RefusesAWrongMagicNumber) {
    const TempFolder folder;
    const std::string path = folder.write("a.bin", token_file({.magic = 20240801}, {}));
    EXPECT_THAT([&] { Sequence(path, Format::tokens); },
                ThrowsMessage<DataError>("data file " + path +
                                         " is no token file (magic number 20240801, expected "
                                         "20240520), write it in the format of llm.c, or set "
                                         "data.format=bytes if it is text"));
}

TEST(Sequence, RefusesAWrongVersion) {
    const TempFolder folder;
    const std::string path = folder.write("a.bin", token_file({.version = 2}, {}));
    EXPECT_THAT([&] { Sequence(path, Format::tokens); },
                ThrowsMessage<DataError>("token file " + path +
                                         " cannot be read (version 2, expected 1), write it with "
                                         "tokens of 16 bits"));
}

TEST(Sequence, RefusesANegativeCount) {
    const TempFolder folder;
    const std::string path = folder.write("a.bin", token_file({.tokens = -5}, {1, 2}));
    EXPECT_THAT([&] { Sequence(path, Format::tokens); },
                ThrowsMessage<DataError>("token file " + path +
                                         " cannot be read (its header says -5 tokens), split it "
                                         "into files of at most 2147483647 tokens"));
}

TEST(Sequence, RefusesATruncatedTokenFile) {
    const TempFolder folder;
    const std::string path = folder.write("a.bin", token_file({.tokens = 100}, counting(0, 99)));
    EXPECT_THAT([&] { Sequence(path, Format::tokens); },
                ThrowsMessage<DataError>("token file " + path +
                                         " is truncated (100 tokens make 1224 bytes, the file "
                                         "has 1222), copy or write it again"));
}

TEST(Sequence, RefusesATokenFileLongerThanItsHeaderSays) {
    const TempFolder folder;
    // By half a token.
    const std::string path = folder.write("a.bin", token_file(counting(0, 100)) + "x");
    EXPECT_THAT([&] { Sequence(path, Format::tokens); },
                ThrowsMessage<DataError>("token file " + path +
                                         " is longer than its header says (100 tokens make 1224 "
                                         "bytes, the file has 1225), copy or write it again"));
}

std::string outside(const std::string& path, std::size_t place, const std::string& token) {
    return "token file " + path + " does not fit the vocabulary (token " + std::to_string(place) +
           ", counted from 0, is " + token +
           ", model.vocabulary=50257), raise model.vocabulary or name a file made for this one";
}

TEST(Sequence, FindsTheFirstTokenOutsideTheVocabulary) {
    const TempFolder folder;
    // In the first block of the scan, at its end, behind it, and in the last, unfilled one.
    for (const std::size_t place : {0U, 1U, 8191U, 8192U, 20000U, 24999U}) {
        std::vector<std::uint16_t> tokens(25'000, 50256);
        tokens[place] = 50257;
        tokens.back() = 60000;
        const std::string path = folder.write("a.bin", token_file(tokens));
        const std::string found = place == 24999 ? "60000" : "50257";
        const Sequence sequence{path, Format::tokens};
        EXPECT_THAT([&] { scan(sequence, 50257); },
                    ThrowsMessage<DataError>(outside(path, place, found)));
        EXPECT_NO_THROW(scan(sequence, 60001));
    }
}

TEST(Sequence, TakesTheWholeRangeOfSixteenBitsIfTheVocabularyDoes) {
    const TempFolder folder;
    const Sequence sequence{folder.write("a.bin", token_file({65535})), Format::tokens};
    EXPECT_NO_THROW(scan(sequence, 65536));
    EXPECT_NO_THROW(scan(sequence, 1'000'000));
    EXPECT_THROW(scan(sequence, 65535), DataError);
}

TEST(Sequence, DigestsAsManyTokensAsAskedAndNoMore) {
    const TempFolder folder;
    std::vector<std::uint16_t> tokens = counting(0, 20'000);
    const Sequence one{folder.write("one.bin", token_file(tokens)), Format::tokens};
    tokens[10'000] = 7;
    const Sequence other{folder.write("other.bin", token_file(tokens)), Format::tokens};
    EXPECT_EQ(digest_of(one, 10'000), digest_of(other, 10'000));
    EXPECT_NE(digest_of(one, 10'001), digest_of(other, 10'001));
    EXPECT_NE(digest_of(one, 20'000), digest_of(one, 19'999));
    EXPECT_EQ(digest_of(one, 0), Digest{}.hex());
}

}  // namespace
}  // namespace rhizome::data
