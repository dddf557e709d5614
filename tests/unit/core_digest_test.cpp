#include "core/digest.hpp"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace rhizome {
namespace {

std::span<const std::byte> bytes_of_text(std::string_view text) {
    return std::as_bytes(std::span{text});
}

std::string digest_of(std::string_view text) {
    Digest digest;
    digest.add(bytes_of_text(text));
    return digest.hex();
}

// XXH128 of no bytes and of "a" (the sanity tests of xxHash, and `printf a | xxhsum -H2`).
TEST(Digest, IsXxh3WithThe128BitsInCanonicalOrder) {
    EXPECT_EQ(Digest{}.hex(), "99aa06d3014798d86001c324468d497f");
    EXPECT_EQ(digest_of("a"), "a96faf705af16834e6c632b61e964e1f");
}

TEST(Digest, HasThirtyTwoLowercaseHexadecimalDigits) {
    for (std::size_t length = 0; length < 300; ++length) {
        const std::string hex = digest_of(std::string(length, 'x'));
        EXPECT_EQ(hex.size(), 32U);
        EXPECT_EQ(hex.find_first_not_of("0123456789abcdef"), std::string::npos) << hex;
    }
}

TEST(Digest, DependsOnOrderAndOnEveryByte) {
    EXPECT_NE(digest_of("ab"), digest_of("ba"));
    const std::string zeros(1000, '\0');
    std::set<std::string> digests{digest_of(zeros)};
    for (std::size_t i = 0; i < zeros.size(); ++i) {
        std::string changed = zeros;
        changed[i] = 1;
        digests.insert(digest_of(changed));
    }
    EXPECT_EQ(digests.size(), zeros.size() + 1);
}

TEST(Digest, IsTheSameForOneAddAndForAnyPieces) {
    std::string text;
    for (int i = 0; i < 2000; ++i) text += static_cast<char>('a' + i * i % 26);
    for (const std::size_t piece : {1, 7, 64, 255, 256, 257, 1024, 1999, 2000}) {
        Digest digest;
        for (std::size_t first = 0; first < text.size(); first += piece) {
            digest.add(bytes_of_text(std::string_view{text}.substr(first, piece)));
        }
        EXPECT_EQ(digest.hex(), digest_of(text)) << piece;
    }
}

TEST(Digest, CanBeReadInBetween) {
    Digest digest;
    digest.add(bytes_of_text("ab"));
    EXPECT_EQ(digest.hex(), digest_of("ab"));
    EXPECT_EQ(digest.hex(), digest_of("ab"));
    digest.add(bytes_of_text("c"));
    EXPECT_EQ(digest.hex(), digest_of("abc"));
}

TEST(Digest, KeepsTextsApart) {
    const auto of_texts = [](std::initializer_list<std::string_view> texts) {
        Digest digest;
        for (const std::string_view text : texts) digest.add_text(text);
        return digest.hex();
    };
    const std::vector<std::string> digests{of_texts({"ab", "c"}), of_texts({"a", "bc"}),
                                           of_texts({"abc"}),     of_texts({"abc", ""}),
                                           of_texts({"", "abc"}), digest_of("abc")};
    EXPECT_EQ(std::set<std::string>(digests.begin(), digests.end()).size(), digests.size());
    EXPECT_EQ(of_texts({"ab", "c"}), of_texts({"ab", "c"}));
}

TEST(Digest, FramesATextByItsLengthInEightBytes) {
    for (const std::string_view text :
         {"", "a", "12345678", "a longer text than any machine word"}) {
        Digest framed;
        framed.add_text(text);
        Digest by_hand;
        const std::uint64_t length = text.size();
        by_hand.add(std::as_bytes(std::span{&length, 1}));
        by_hand.add(bytes_of_text(text));
        EXPECT_EQ(framed.hex(), by_hand.hex()) << text;
    }
}

TEST(Digest, MovesWithWhatWasAdded) {
    Digest first;
    first.add(bytes_of_text("ab"));
    Digest second{std::move(first)};
    second.add(bytes_of_text("c"));
    Digest third;
    third = std::move(second);
    EXPECT_EQ(third.hex(), digest_of("abc"));
}

}  // namespace
}  // namespace rhizome
