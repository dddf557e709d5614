// One data file as a sequence of tokens, read where it lies.
//
//   bytes   plain text: each byte is a token
//   tokens  the .bin format of llm.c (github.com/karpathy/llm.c, dev/data/data_common.py): a header
//           of 256 little-endian int32 (magic 20240520, version 1, number of tokens, zeros), then
//           the tokens, little-endian uint16
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/digest.hpp"
#include "data/mapped_file.hpp"

namespace rhizome::data {

enum class Format : std::uint8_t { bytes, tokens };

class Sequence {
  public:
    /// Throws DataError if the file cannot be mapped or its header and size are not of the format.
    Sequence(const std::string& path, Format format);

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] std::int64_t tokens() const { return tokens_; }

    /// Writes tokens [first, first + n) as n int32 into `row` of 4 n bytes.
    void copy(std::int64_t first, std::span<std::byte> row) const;

    /// Adds the first `digested` tokens to the digest and, in the same pass over the file, throws
    /// DataError if any of its tokens is not below the vocabulary.
    void scan(std::int32_t vocabulary, std::int64_t digested, Digest& digest) const;

  private:
    /// Bytes of tokens [first, last).
    [[nodiscard]] std::span<const std::byte> content(std::int64_t first, std::int64_t last) const;
    void check_vocabulary(std::int64_t first, std::int64_t last, std::int32_t vocabulary) const;

    std::string path_;
    MappedFile file_;
    Format format_;
    std::int64_t tokens_ = 0;
};

}  // namespace rhizome::data
