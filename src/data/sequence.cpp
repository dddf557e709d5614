#include "data/sequence.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "core/error.hpp"

namespace rhizome::data {
namespace {

// Files are little-endian and are read as they lie.
static_assert(std::endian::native == std::endian::little);

constexpr std::int32_t magic_number = 20240520;
constexpr std::int32_t format_version = 1;
constexpr std::int64_t header_bytes = 1024;  // 256 words
constexpr std::int64_t token_bytes = 2;

// A block is scanned twice, for the vocabulary and for the digest; the second time it is in cache.
constexpr std::size_t block_tokens = 8192;

std::int32_t header_word(std::span<const std::byte> file, std::size_t place) {
    std::int32_t word = 0;
    std::memcpy(&word, file.data() + place * sizeof word, sizeof word);
    return word;
}

void check_is_text(const std::string& path, std::span<const std::byte> file) {
    // Without this, a forgotten option trains on header and halves of tokens and nobody notices.
    if (file.size() >= sizeof magic_number && header_word(file, 0) == magic_number) {
        throw DataError{"data file " + path + " is no text (it begins with the magic number " +
                        std::to_string(magic_number) + " of token files), set data.format=tokens"};
    }
}

/// Checks the header against the file and returns the number of tokens.
std::int64_t tokens_of_header(const std::string& path, std::span<const std::byte> file) {
    const auto size = static_cast<std::int64_t>(file.size());
    if (size < header_bytes) {
        throw DataError{"token file " + path + " is truncated (" + std::to_string(size) +
                        " bytes, the header alone takes " + std::to_string(header_bytes) +
                        "), copy or write it again, or set data.format=bytes if it is text"};
    }
    if (const std::int32_t magic = header_word(file, 0); magic != magic_number) {
        throw DataError{"data file " + path + " is no token file (magic number " +
                        std::to_string(magic) + ", expected " + std::to_string(magic_number) +
                        "), write it in the format of llm.c, or set data.format=bytes if it is "
                        "text"};
    }
    if (const std::int32_t version = header_word(file, 1); version != format_version) {
        throw DataError{"token file " + path + " cannot be read (version " +
                        std::to_string(version) + ", expected " + std::to_string(format_version) +
                        "), write it with tokens of 16 bits"};
    }
    const std::int64_t tokens = header_word(file, 2);
    if (tokens < 0) {
        throw DataError{"token file " + path + " cannot be read (its header says " +
                        std::to_string(tokens) +
                        " tokens), split it into files of at most 2147483647 tokens"};
    }
    if (const std::int64_t expected = header_bytes + tokens * token_bytes; size != expected) {
        throw DataError{"token file " + path + " is " +
                        (size < expected ? "truncated" : "longer than its header says") + " (" +
                        std::to_string(tokens) + " tokens make " + std::to_string(expected) +
                        " bytes, the file has " + std::to_string(size) +
                        "), copy or write it again"};
    }
    return tokens;
}

/// The fixed size lets the compiler use vector instructions and nothing else.
std::uint16_t largest(const std::array<std::uint16_t, block_tokens>& tokens) {
    std::uint16_t found = 0;
    for (const std::uint16_t token : tokens) found = std::max(found, token);
    return found;
}

template <class Token>
void widen(std::span<const std::byte> tokens, std::span<std::byte> row) {
    for (std::size_t i = 0; i < row.size() / sizeof(std::int32_t); ++i) {
        Token token{};
        std::memcpy(&token, tokens.data() + i * sizeof token, sizeof token);
        const std::int32_t wide = token;
        std::memcpy(row.data() + i * sizeof wide, &wide, sizeof wide);
    }
}

}  // namespace

Sequence::Sequence(const std::string& path, Format format)
    : path_{path}, file_{path}, format_{format} {
    switch (format_) {
        case Format::bytes:
            check_is_text(path_, file_.bytes());
            tokens_ = static_cast<std::int64_t>(file_.bytes().size());
            break;
        case Format::tokens:
            tokens_ = tokens_of_header(path_, file_.bytes());
            break;
    }
}

std::span<const std::byte> Sequence::content(std::int64_t first, std::int64_t last) const {
    ENSURE(0 <= first && first <= last && last <= tokens_);
    const std::int64_t skipped = format_ == Format::tokens ? header_bytes : 0;
    const std::int64_t width = format_ == Format::tokens ? token_bytes : 1;
    return file_.bytes().subspan(static_cast<std::size_t>(skipped + first * width),
                                 static_cast<std::size_t>((last - first) * width));
}

void Sequence::copy(std::int64_t first, std::span<std::byte> row) const {
    ENSURE(row.size() % sizeof(std::int32_t) == 0);
    const auto count = static_cast<std::int64_t>(row.size() / sizeof(std::int32_t));
    const std::span<const std::byte> from = content(first, first + count);
    switch (format_) {
        case Format::bytes:
            widen<std::uint8_t>(from, row);
            break;
        case Format::tokens:
            widen<std::uint16_t>(from, row);
            break;
    }
}

void Sequence::scan(std::int32_t vocabulary, std::int64_t digested, Digest& digest) const {
    ENSURE(digested <= tokens_);
    constexpr auto block = static_cast<std::int64_t>(block_tokens);
    for (std::int64_t first = 0; first < tokens_; first += block) {
        const std::int64_t last = std::min(first + block, tokens_);
        check_vocabulary(first, last, vocabulary);
        if (first < digested) digest.add(content(first, std::min(last, digested)));
    }
}

void Sequence::check_vocabulary(std::int64_t first, std::int64_t last,
                                std::int32_t vocabulary) const {
    if (format_ == Format::bytes) {
        ENSURE(vocabulary >= 256);  // then there is nothing to look for
        return;
    }
    const std::span<const std::byte> from = content(first, last);
    std::array<std::uint16_t, block_tokens> tokens{};  // zeros behind a short block change nothing
    std::memcpy(tokens.data(), from.data(), from.size());
    if (largest(tokens) < vocabulary) return;
    const auto* const bad = std::find_if(tokens.begin(), tokens.end(),
                                         [&](std::int32_t token) { return token >= vocabulary; });
    throw DataError{"token file " + path_ + " does not fit the vocabulary (token " +
                    std::to_string(first + (bad - tokens.begin())) + ", counted from 0, is " +
                    std::to_string(*bad) + ", model.vocabulary=" + std::to_string(vocabulary) +
                    "), raise model.vocabulary or name a file made for this one"};
}

}  // namespace rhizome::data
