// 128-bit digests (XXH3) of contents: to tell whether two runs, files or tensors are equal. Fast
// and well mixed, not meant against forgery.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace rhizome {

class Digest {
  public:
    Digest();
    ~Digest();
    Digest(Digest&&) noexcept;
    Digest& operator=(Digest&&) noexcept;

    void add(std::span<const std::byte> bytes);
    /// The text and its length, so that ("ab", "c") and ("a", "bc") differ.
    void add_text(std::string_view text);
    /// The 16 bytes of all that was added so far, most significant first.
    [[nodiscard]] std::array<std::byte, 16> bytes() const;
    /// 32 hexadecimal digits of them.
    [[nodiscard]] std::string hex() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

/// Two lower-case digits a byte.
[[nodiscard]] std::string to_hex(std::span<const std::byte> bytes);

}  // namespace rhizome
