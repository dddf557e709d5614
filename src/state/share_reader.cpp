#include <algorithm>
#include <cstring>
#include <map>

#include "core/digest.hpp"
#include "state/file_header.hpp"
#include "state/hdf5_objects.hpp"
#include "state/share_file.hpp"
#include "state/share_format.hpp"
#include "state/stored_table.hpp"

namespace rhizome::state {
namespace {

using DigestBytes = std::array<std::byte, digest_bytes>;

/// Where a chunk's values are, and what they are.
struct Stored {
    std::array<std::int64_t, all_values.size()> offsets{};
    std::array<DigestBytes, all_values.size()> digests{};
};

/// The chunks of a share, ascending, with what is stored of them.
struct Contents {
    std::vector<StoredChunk> chunks;
    std::vector<Stored> stored;
};

std::vector<std::int32_t> read_chunk_numbers(const Hdf5File& file, hid_t group,
                                             std::int32_t chunks) {
    const hsize_t count = read_length(group, "chunks");
    if (count < 1 || count > static_cast<hsize_t>(chunks)) {
        throw Hdf5Error{"chunks has an impossible length"};
    }
    const auto bytes = read_table(file, group, "chunks", H5T_STD_I32LE, {count});
    std::vector<std::int32_t> numbers(count);
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    std::int32_t least = 0;
    for (const std::int32_t number : numbers) {
        if (number < least || number >= chunks) throw Hdf5Error{"chunks are not ascending"};
        least = number + 1;
    }
    return numbers;
}

/// Of one tensor. `end` is where its values must begin, and then where they end.
void read_tensor(const Hdf5File& file, hid_t group, const StoredTable& table, std::int32_t tensor,
                 std::int64_t& end, Contents& contents) {
    const auto numbers = read_chunk_numbers(file, group, table.chunks_of(tensor));
    const std::size_t first = contents.chunks.size();
    std::int64_t elements = 0;
    for (const std::int32_t number : numbers) {
        contents.chunks.push_back({tensor, number});
        elements += table.elements_of(contents.chunks.back());
    }
    contents.stored.resize(contents.chunks.size());
    const auto digests = read_table(file, group, "digests", H5T_STD_U8LE,
                                    {numbers.size(), all_values.size(), digest_bytes});
    for (std::size_t v = 0; v < all_values.size(); ++v) {
        const DType type = table.tensors[static_cast<std::size_t>(tensor)].dtype;
        const std::string name{name_of(all_values.at(v))};
        if (find_values(group, name, file_type(type), static_cast<hsize_t>(elements)) != end) {
            throw Hdf5Error{name + " is not where it should be"};
        }
        for (std::size_t i = first; i < contents.chunks.size(); ++i) {
            const std::size_t place = ((i - first) * all_values.size() + v) * digest_bytes;
            contents.stored[i].offsets.at(v) = end;
            std::copy_n(digests.begin() + static_cast<std::ptrdiff_t>(place), digest_bytes,
                        contents.stored[i].digests.at(v).begin());
            end += table.bytes_of(contents.chunks[i]);
        }
    }
    if (links_in(group) != 2 + static_cast<std::int64_t>(all_values.size())) {
        throw Hdf5Error{"it has more than it should"};
    }
}

/// With the name of what could not be read.
template <class Read>
void named(const std::string& name, Read read) {
    try {
        read();
    } catch (const Hdf5Error& error) {
        throw Hdf5Error{name + ": " + error.what()};
    }
}

Contents read_contents(const Hdf5File& file, const StoredTable& table, const FileHeader& header) {
    check_format(file.id(), share_format);
    if (read_int32(file.id(), "steps") != header.steps ||
        read_int32(file.id(), "writer") != header.writer) {
        throw Hdf5Error{"attributes differ from the header"};
    }
    Contents contents;
    const Handle tensors = open_group(file.id(), "tensors");
    std::map<std::string, std::int64_t> tensors_in;
    std::int64_t end = header.structure;
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(table.tensors.size()); ++t) {
        const std::string& name = table.tensors[static_cast<std::size_t>(t)].name;
        const auto [layer_name, tensor_name] = split_name(name).value();
        if (!has_link(tensors.id(), layer_name)) continue;
        const Handle layer = open_group(tensors.id(), layer_name);
        if (!has_link(layer.id(), tensor_name)) continue;
        ++tensors_in[layer_name];
        const Handle group = open_group(layer.id(), tensor_name);
        named(name, [&] { read_tensor(file, group.id(), table, t, end, contents); });
    }
    // As many links as were looked at: so there is nothing else.
    bool all = links_in(file.id()) == 1 &&
               links_in(tensors.id()) == static_cast<std::int64_t>(tensors_in.size());
    for (const auto& [name, count] : tensors_in) {
        all = all && links_in(open_group(tensors.id(), name).id()) == count;
    }
    if (!all) throw Hdf5Error{"it has tensors that the state has not"};
    if (end != header.bytes) throw Hdf5Error{"its values do not end where the file does"};
    return contents;
}

}  // namespace

struct ShareReader::Inside {
    StoredTable table{};
    std::unique_ptr<File> file;
    ShareFacts facts{};
    std::int32_t steps = 0;
    Contents contents;

    /// Nothing if it is not here.
    [[nodiscard]] const Stored* find(StoredChunk chunk) const {
        const auto& chunks = contents.chunks;
        const auto place = std::lower_bound(chunks.begin(), chunks.end(), chunk);
        if (place == chunks.end() || *place != chunk) return nullptr;
        return &contents.stored[static_cast<std::size_t>(place - chunks.begin())];
    }
};

ShareReader::ShareReader(FileSystem& files, const std::string& path, const StoredTable& table) {
    ENSURE(!problem_of(table));
    FileStart start = read_start(files, path, FileKind::share);
    try {
        Contents contents = read_contents(Hdf5File{std::move(start.bytes), start.header.bytes},
                                          table, start.header);
        inside_ = std::make_unique<Inside>();
        inside_->table = table;
        inside_->file = std::move(start.file);
        inside_->facts = {start.header.writer, start.header.bytes, start.check};
        inside_->steps = start.header.steps;
        inside_->contents = std::move(contents);
    } catch (const Hdf5Error& error) {
        throw StateError{path, "structure", error.what(), damaged_hint};
    }
}

ShareReader::~ShareReader() = default;

const ShareFacts& ShareReader::facts() const { return inside_->facts; }

std::int32_t ShareReader::steps() const { return inside_->steps; }

const std::vector<StoredChunk>& ShareReader::chunks() const { return inside_->contents.chunks; }

std::optional<std::array<std::byte, 16>> ShareReader::digest_of(StoredChunk chunk,
                                                                Value value) const {
    const Stored* stored = inside_->find(chunk);
    if (stored == nullptr) return std::nullopt;
    return stored->digests.at(static_cast<std::size_t>(value));
}

void ShareReader::read(StoredChunk chunk, Value value, std::span<std::byte> to) const {
    const Stored* stored = inside_->find(chunk);
    ENSURE(stored != nullptr);
    ENSURE(to.size() == static_cast<std::size_t>(inside_->table.bytes_of(chunk)));
    const auto place = static_cast<std::size_t>(value);
    inside_->file->read_at(stored->offsets.at(place), to);
    Digest digest;
    digest.add(to);
    if (digest.bytes() != stored->digests.at(place)) {
        throw StateError{inside_->file->path(), place_of(inside_->table, chunk, value),
                         "differs from its digest", damaged_hint};
    }
}

}  // namespace rhizome::state
