#include "state/share_file.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "core/digest.hpp"
#include "core/text.hpp"
#include "state/file_header.hpp"
#include "state/hdf5_objects.hpp"
#include "state/share_format.hpp"
#include "state/stored_table.hpp"

namespace rhizome::state {
namespace {

/// Chunks of one tensor.
struct Group {
    std::int32_t tensor;
    std::span<const ChunkValues> chunks;
};

std::vector<Group> groups_of(std::span<const ChunkValues> chunks) {
    std::vector<Group> groups;
    while (!chunks.empty()) {
        const std::int32_t tensor = chunks.front().chunk.tensor;
        std::size_t count = 0;
        while (count < chunks.size() && chunks[count].chunk.tensor == tensor) ++count;
        groups.push_back({tensor, chunks.first(count)});
        chunks = chunks.subspan(count);
    }
    return groups;
}

void check_chunks(const StoredTable& table, std::span<const ChunkValues> chunks) {
    ENSURE(!problem_of(table));
    for (std::size_t i = 0; i < chunks.size(); ++i) {
        ENSURE(i == 0 || chunks[i - 1].chunk < chunks[i].chunk);
        const auto bytes = static_cast<std::size_t>(table.bytes_of(chunks[i].chunk));
        for (const auto& values : chunks[i].values) ENSURE(values.size() == bytes);
    }
}

void write_tables(hid_t group, std::span<const ChunkValues> chunks) {
    std::vector<std::int32_t> numbers;
    std::vector<std::byte> digests;
    for (const ChunkValues& chunk : chunks) {
        numbers.push_back(chunk.chunk.chunk);
        for (const auto& values : chunk.values) {
            Digest digest;
            digest.add(values);
            const auto bytes = digest.bytes();
            digests.insert(digests.end(), bytes.begin(), bytes.end());
        }
    }
    write_table(group, "chunks", H5T_STD_I32LE, {chunks.size()}, std::as_bytes(std::span{numbers}));
    write_table(group, "digests", H5T_STD_U8LE, {chunks.size(), all_values.size(), digest_bytes},
                digests);
}

/// Builds groups, tables and empty datasets, and then gives the values their places: in the order
/// in which they are written, behind all else, without gaps.
Image lay_out(const StoredTable& table, std::int32_t steps, std::int32_t writer,
              std::span<const Group> groups) {
    Hdf5File file{header_bytes};
    std::vector<Handle> values;
    std::vector<std::int64_t> sizes;
    {
        write_words(file.id(), "format", share_format);
        write_number(file.id(), "version", format_version);
        write_number(file.id(), "steps", steps);
        write_number(file.id(), "writer", writer);
        const Handle tensors = create_group(file.id(), "tensors");
        for (const Group& group : groups) {
            const StoredTensor& tensor = table.tensors[static_cast<std::size_t>(group.tensor)];
            const auto [layer_name, tensor_name] = split_name(tensor.name).value();
            const Handle layer = has_link(tensors.id(), layer_name)
                                     ? open_group(tensors.id(), layer_name)
                                     : create_group(tensors.id(), layer_name);
            const Handle inner = create_group(layer.id(), tensor_name);
            write_tables(inner.id(), group.chunks);
            std::int64_t elements = 0;
            for (const ChunkValues& chunk : group.chunks)
                elements += table.elements_of(chunk.chunk);
            for (const Value value : all_values) {
                values.push_back(create_values(inner.id(), std::string{name_of(value)},
                                               file_type(tensor.dtype),
                                               static_cast<hsize_t>(elements)));
                sizes.push_back(elements * rhizome::bytes_of(tensor.dtype));
            }
        }
    }
    file.start_placing();
    auto end = static_cast<std::int64_t>(file.structure().size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        ENSURE(place_values(values[i]) == end);
        end += sizes[i];
    }
    values.clear();
    Image image = file.close();
    ENSURE(image.allocated == end);
    return image;
}

void write_values(File& file, std::int64_t offset, std::span<const Group> groups) {
    for (const Group& group : groups) {
        for (const Value value : all_values) {
            for (const ChunkValues& chunk : group.chunks) {
                const auto bytes = chunk.values.at(static_cast<std::size_t>(value));
                file.write_at(offset, bytes);
                offset += static_cast<std::int64_t>(bytes.size());
            }
        }
    }
}

}  // namespace

StateError::StateError(const std::string& of_path, const std::string& of_place,
                       const std::string& of_reason, const std::string& hint)
    : DataError{"state file " + of_path + " (" + of_place + ": " + of_reason + "), " + hint},
      path{of_path},
      place{of_place},
      reason{of_reason} {}

std::string share_name(std::int32_t writer) {
    ENSURE(writer >= 0);
    std::array<char, 32> name{};
    const int size = std::snprintf(name.data(), name.size(), "share-%05d.h5", writer);
    ENSURE(size > 0 && static_cast<std::size_t>(size) < name.size());
    return name.data();
}

std::optional<std::int32_t> writer_of_name(std::string_view name) {
    constexpr std::string_view begin = "share-";
    constexpr std::string_view end = ".h5";
    if (!name.starts_with(begin) || !name.ends_with(end) ||
        name.size() < begin.size() + end.size()) {
        return std::nullopt;
    }
    name.remove_suffix(end.size());
    const auto writer = parse_integer(name.substr(begin.size()));
    if (!writer || *writer < 0 || *writer > INT32_MAX) return std::nullopt;
    const auto found = static_cast<std::int32_t>(*writer);
    if (share_name(found) != std::string{name} + std::string{end}) return std::nullopt;
    return found;
}

ShareFacts write_share(FileSystem& files, const std::string& path, const StoredTable& table,
                       std::int32_t steps, std::int32_t writer,
                       std::span<const ChunkValues> chunks) {
    ENSURE(steps >= 0 && writer >= 0);
    check_chunks(table, chunks);
    const std::vector<Group> groups = groups_of(chunks);
    const Image image =
        image_or_file_error(path, [&] { return lay_out(table, steps, writer, groups); });
    const auto file = files.create(path);
    write_values(*file, static_cast<std::int64_t>(image.bytes.size()), groups);
    const std::string check =
        write_start(*file, {.kind = FileKind::share, .writer = writer, .steps = steps}, image);
    return {.writer = writer, .bytes = image.allocated, .digest = check};
}

}  // namespace rhizome::state
