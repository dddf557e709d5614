// Whatever bytes a data file has, as text and as tokens it is refused in the form of the house or
// is a sequence: all of it can be read, and has the digest of what was read.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "core/error.hpp"
#include "core/text.hpp"
#include "data/sequence.hpp"
#include "fuzz/target.hpp"

namespace rhizome::fuzz {
namespace {

constexpr std::size_t header_bytes = 1024;
constexpr std::int32_t vocabulary = 300;

/// Data files are mapped, so there has to be one.
class FileInMemory {
  public:
    FileInMemory(const std::uint8_t* data, std::size_t size) : file_{::memfd_create("tokens", 0)} {
        ENSURE(file_ >= 0 && ::write(file_, data, size) == static_cast<ssize_t>(size));
    }
    ~FileInMemory() { ::close(file_); }
    FileInMemory(const FileInMemory&) = delete;
    FileInMemory& operator=(const FileInMemory&) = delete;

    [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

  private:
    int file_;
};

std::string digest_of(const data::Sequence& sequence) {
    Digest digest;
    sequence.scan(vocabulary, sequence.tokens(), digest);
    return digest.hex();
}

/// Nothing if it is refused.
std::optional<std::int64_t> read_all(const std::string& path, data::Format format) {
    const std::size_t width = format == data::Format::tokens ? 2 : 1;
    try {
        const data::Sequence sequence{path, format};
        const std::string digest = digest_of(sequence);
        std::vector<std::byte> row(static_cast<std::size_t>(sequence.tokens()) * 4);
        sequence.copy(0, row);
        Digest again;
        for (std::size_t i = 0; i < row.size(); i += 4) {
            std::int32_t token = 0;
            std::memcpy(&token, row.data() + i, sizeof token);
            ENSURE(token >= 0 && token < vocabulary);
            again.add(std::span{row}.subspan(i, width));
        }
        ENSURE(again.hex() == digest);
        return sequence.tokens();
    } catch (const DataError& error) {
        const std::string message = error.what();
        ENSURE(message.find(path) != std::string::npos && visible(message) == message);
        ENSURE(message.size() < 2000);
        return std::nullopt;
    }
}

std::string token_file(const std::vector<std::uint16_t>& tokens) {
    std::int32_t header[header_bytes / 4] = {20240520, 1, static_cast<std::int32_t>(tokens.size())};
    std::string content(header_bytes + tokens.size() * 2, '\0');
    std::memcpy(content.data(), header, header_bytes);
    std::memcpy(content.data() + header_bytes, tokens.data(), tokens.size() * 2);
    return content;
}

}  // namespace

std::vector<std::string> seeds() {
    std::vector<std::uint16_t> many(9000);  // more than one block of a scan
    for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<std::uint16_t>(i % 300);
    return {token_file({1, 2, 299}), token_file(many)};
}

// The number of tokens, so that it fits the file.
void mend(std::string& input) {
    if (input.size() < header_bytes) return;
    const auto tokens = static_cast<std::int32_t>((input.size() - header_bytes) / 2);
    std::memcpy(input.data() + 8, &tokens, sizeof tokens);
}

}  // namespace rhizome::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rhizome;
    const fuzz::FileInMemory file{data, size};
    const auto tokens = fuzz::read_all(file.path(), data::Format::tokens);
    const auto letters = fuzz::read_all(file.path(), data::Format::bytes);
    if (tokens) ENSURE(*tokens * 2 + 1024 == static_cast<std::int64_t>(size));
    if (letters) ENSURE(*letters == static_cast<std::int64_t>(size));
    ENSURE(!tokens || !letters);
    fuzz::note(tokens ? fuzz::Outcome::accepted : fuzz::Outcome::refused);
    return 0;
}
