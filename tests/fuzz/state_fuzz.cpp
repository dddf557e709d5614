// Whatever bytes a file of a state has, it is refused in the form of the house or means one thing:
// a share gives exactly the chunks that it says, an index is the same after it was written again.
// Digests are mended, so that what HDF5 is made to parse is hostile and not only damaged.
#include <algorithm>

#include "core/digest.hpp"
#include "core/text.hpp"
#include "fuzz/target.hpp"
#include "state/fake_disk.hpp"
#include "state/file_header.hpp"
#include "support/sample_state.hpp"

namespace rhizome::fuzz {
namespace {

using state::FileKind;

std::vector<std::byte> bytes_of(const std::string& text) {
    const auto bytes = std::as_bytes(std::span{text});
    return {bytes.begin(), bytes.end()};
}

std::string content_of(const state::FakeDisk& disk, const std::string& path) {
    const auto bytes = disk.content(path);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void check_message(const state::StateError& error) {
    const std::string message = error.what();
    ENSURE(message.starts_with("state file " + error.path + " (" + error.place + ": "));
    ENSURE(visible(message) == message);
    ENSURE(message.size() < 4000);
}

void read_share(state::FakeDisk& disk, const std::string& path) {
    const state::StoredTable table = state::sample_table();
    const state::ShareReader reader{disk, path, table};
    ENSURE(std::is_sorted(reader.chunks().begin(), reader.chunks().end()));
    for (const state::StoredChunk chunk : reader.chunks()) {
        std::vector<std::byte> values(static_cast<std::size_t>(table.bytes_of(chunk)));
        for (const state::Value value : state::all_values) {
            ENSURE(reader.digest_of(chunk, value).has_value());
            try {
                reader.read(chunk, value, values);
            } catch (const state::StateError& error) {
                check_message(error);  // values are not mended
            }
        }
    }
}

void read_index(state::FakeDisk& disk, const std::string& path) {
    const state::IndexFile file = state::read_index(disk, path);
    state::write_index(disk, "again", file.index);
    const state::IndexFile again = state::read_index(disk, "again");
    ENSURE(again.index == file.index);
}

std::optional<std::int64_t> number_behind(const std::string& text, const std::string& word) {
    const std::size_t at = text.find("\n" + word + " ");
    if (at == std::string::npos) return std::nullopt;
    const std::size_t begin = at + word.size() + 2;
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) return std::nullopt;
    return parse_integer(text.substr(begin, end - begin));
}

}  // namespace

std::vector<std::string> seeds() {
    state::FakeDisk disk;
    const std::string path = state::write_sample_state(disk, "states", 3, 2);
    state::write_sample_state(disk, "states", 4, 1);
    return {content_of(disk, path + "/index.h5"), content_of(disk, path + "/share-00000.h5"),
            content_of(disk, path + "/share-00001.h5"),
            content_of(disk, "states/step-00000004/share-00000.h5")};
}

void mend(std::string& input) {
    constexpr auto begin = static_cast<std::size_t>(state::header_bytes);
    if (input.size() < begin) return;
    const std::string text = input.substr(0, begin);
    state::FileHeader header{};
    header.kind = text.starts_with("rhizome state index") ? FileKind::index : FileKind::share;
    const auto small = [&](const std::string& word) {
        const std::int64_t number = number_behind(text, word).value_or(0);
        return static_cast<std::int32_t>(std::clamp<std::int64_t>(number, 0, 1 << 30));
    };
    header.writer = small("writer");
    header.steps = small("steps");
    header.bytes = static_cast<std::int64_t>(input.size());
    header.structure = std::clamp<std::int64_t>(number_behind(text, "structure").value_or(0),
                                                state::header_bytes, header.bytes);
    Digest digest;
    digest.add(std::as_bytes(std::span{input})
                   .subspan(begin, static_cast<std::size_t>(header.structure) - begin));
    header.digest = digest.hex();
    input.replace(0, begin, state::text_of(header));
}

}  // namespace rhizome::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rhizome;
    const std::string input(reinterpret_cast<const char*>(data), size);
    state::FakeDisk disk;
    disk.set_content("file", fuzz::bytes_of(input));
    try {
        if (input.starts_with("rhizome state index")) {
            fuzz::read_index(disk, "file");
        } else {
            fuzz::read_share(disk, "file");
        }
        fuzz::note(fuzz::Outcome::accepted);
    } catch (const state::StateError& error) {
        fuzz::check_message(error);
        fuzz::note(fuzz::Outcome::refused);
    }
    return 0;
}
