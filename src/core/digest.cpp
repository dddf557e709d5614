#include "core/digest.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "core/error.hpp"

namespace rhizome {

struct Digest::State {
    // The library wants its state on a 64-byte border; new respects alignas.
    XXH3_state_t xxh;
};

Digest::Digest() : state_{std::make_unique<State>()} {
    ENSURE(XXH3_128bits_reset(&state_->xxh) == XXH_OK);
}
Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

void Digest::add(std::span<const std::byte> bytes) {
    ENSURE(XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size()) == XXH_OK);
}

void Digest::add_text(std::string_view text) {
    const std::uint64_t size = text.size();
    add(std::as_bytes(std::span{&size, 1}));
    add(std::as_bytes(std::span{text}));
}

std::array<std::byte, 16> Digest::bytes() const {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state_->xxh));
    std::array<std::byte, 16> bytes{};
    static_assert(sizeof canonical.digest == sizeof bytes);
    std::memcpy(bytes.data(), canonical.digest, sizeof bytes);
    return bytes;
}

std::string Digest::hex() const { return to_hex(bytes()); }

std::string to_hex(std::span<const std::byte> bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    for (const std::byte byte : bytes) {
        text += digits[std::to_integer<std::size_t>(byte >> 4)];
        text += digits[std::to_integer<std::size_t>(byte & std::byte{15})];
    }
    return text;
}

}  // namespace rhizome
