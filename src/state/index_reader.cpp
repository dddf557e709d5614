#include <algorithm>
#include <cstring>

#include "core/digest.hpp"
#include "state/file_header.hpp"
#include "state/hdf5_objects.hpp"
#include "state/history_text.hpp"
#include "state/index_file.hpp"
#include "state/share_format.hpp"
#include "state/stored_table.hpp"

namespace rhizome::state {
namespace {

/// Numbers that cannot be negative.
std::int64_t read_count(hid_t object, const std::string& name) {
    const std::int64_t value = read_int64(object, name);
    if (value < 0) throw Hdf5Error{name + " is negative"};
    return value;
}

StateFacts read_facts(const Hdf5File& file) {
    const hid_t root = file.id();
    StateFacts facts;
    facts.steps = read_int32(root, "steps");
    facts.samples = read_count(root, "samples");
    facts.samples_per_pass = read_count(root, "samples_per_pass");
    facts.saved_at = read_words(root, "saved_at");
    facts.program = read_words(root, "program");
    facts.fingerprint = read_words(root, "fingerprint");
    facts.mathematics_digest = read_words(root, "mathematics_digest");
    facts.data_digest = read_words(root, "data_digest");
    facts.mathematics = read_text(file, root, "mathematics");
    facts.layout = read_text(file, root, "layout");
    auto history = parse_history(read_text(file, root, "history"));
    if (!history) throw Hdf5Error{"history is no history"};
    facts.history = std::move(*history);
    return facts;
}

std::vector<StoredTie> parse_ties(std::string_view text) {
    constexpr std::string_view between = " = ";
    std::vector<StoredTie> ties;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        const std::size_t middle = text.find(between);
        if (end == std::string_view::npos || middle > end) throw Hdf5Error{"ties are no ties"};
        const std::size_t owner = middle + between.size();
        ties.push_back(
            {std::string{text.substr(0, middle)}, std::string{text.substr(owner, end - owner)}});
        text.remove_prefix(end + 1);
    }
    return ties;
}

std::vector<ShareFacts> read_shares(const Hdf5File& file) {
    const Handle group = open_group(file.id(), "shares");
    const hsize_t count = read_length(group.id(), "bytes");
    if (count < 1 || count > INT32_MAX) throw Hdf5Error{"shares has an impossible length"};
    const auto bytes = read_table(file, group.id(), "bytes", H5T_STD_I64LE, {count});
    const Handle type = make_text_type(2 * digest_bytes);
    const auto digests = read_table(file, group.id(), "digest", type.id(), {count});
    std::vector<ShareFacts> shares;
    for (std::size_t i = 0; i < count; ++i) {
        std::int64_t size = 0;
        std::memcpy(&size, bytes.data() + i * sizeof size, sizeof size);
        const auto digest = digests.subspan(i * 2 * digest_bytes, 2 * digest_bytes);
        if (size < header_bytes) throw Hdf5Error{"shares has an impossible size"};
        shares.push_back({static_cast<std::int32_t>(i),
                          size,
                          {reinterpret_cast<const char*>(digest.data()), digest.size()}});
    }
    return shares;
}

Shape read_shape(hid_t group) {
    const std::vector<std::int64_t> extents = read_numbers(group, "shape", Shape::dimensions_max);
    for (const std::int64_t extent : extents) {
        if (extent < 1) throw Hdf5Error{"shape is impossible"};
    }
    switch (extents.size()) {
        case 1:
            return {extents[0]};
        case 2:
            return {extents[0], extents[1]};
        case 3:
            return {extents[0], extents[1], extents[2]};
        default:
            return {extents[0], extents[1], extents[2], extents[3]};
    }
}

struct FoundTensor {
    std::int32_t order;
    StoredTensor tensor;
    Handle group;
};

FoundTensor read_tensor(Handle group, const std::string& name) {
    const std::string dtype = read_words(group.id(), "dtype");
    if (dtype != dtype_name(DType::f32) && dtype != dtype_name(DType::f64)) {
        throw Hdf5Error{name + " has an unknown dtype"};
    }
    const std::int32_t order = read_int32(group.id(), "order");
    const Shape shape = read_shape(group.id());
    const DType type = dtype == dtype_name(DType::f32) ? DType::f32 : DType::f64;
    return {order, {name, shape, type}, std::move(group)};
}

/// In their order.
std::vector<FoundTensor> find_tensors(const Hdf5File& file) {
    std::vector<FoundTensor> found;
    const Handle tensors = open_group(file.id(), "tensors");
    for (const std::string& layer_name : link_names(tensors.id())) {
        const Handle layer = open_group(tensors.id(), layer_name);
        for (const std::string& name : link_names(layer.id())) {
            found.push_back(read_tensor(open_group(layer.id(), name), layer_name + "/" + name));
        }
    }
    std::sort(found.begin(), found.end(),
              [](const FoundTensor& a, const FoundTensor& b) { return a.order < b.order; });
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (found[i].order != static_cast<std::int32_t>(i)) {
            throw Hdf5Error{found[i].tensor.name + " has a wrong place in the order"};
        }
    }
    return found;
}

void read_writers(const Hdf5File& file, const FoundTensor& found, StateIndex& index) {
    const auto chunks = static_cast<hsize_t>(index.table.chunks_of(found.order));
    const auto bytes = read_table(file, found.group.id(), "writer", H5T_STD_I32LE, {chunks});
    const std::size_t first = index.writer_of.size();
    index.writer_of.resize(first + chunks);
    std::memcpy(index.writer_of.data() + first, bytes.data(), bytes.size());
    for (const std::int32_t writer : std::span{index.writer_of}.subspan(first)) {
        if (writer < 0 || static_cast<std::size_t>(writer) >= index.shares.size()) {
            throw Hdf5Error{found.tensor.name + " has a writer without a share"};
        }
    }
}

StateIndex read_all(const Hdf5File& file, const FileHeader& header) {
    check_format(file.id(), index_format);
    StateIndex index;
    index.facts = read_facts(file);
    if (index.facts.steps != header.steps) throw Hdf5Error{"steps differ from the header"};
    index.shares = read_shares(file);
    index.table.chunk_elements = read_int64(file.id(), "chunk_elements");
    index.table.ties = parse_ties(read_text(file, file.id(), "ties"));
    const std::vector<FoundTensor> found = find_tensors(file);
    for (const FoundTensor& one : found) index.table.tensors.push_back(one.tensor);
    if (const auto problem = problem_of(index.table)) throw Hdf5Error{*problem};
    for (const FoundTensor& one : found) read_writers(file, one, index);
    return index;
}

}  // namespace

IndexFile read_index(FileSystem& files, const std::string& path) {
    FileStart start = read_start(files, path, FileKind::index);
    try {
        const Hdf5File file{std::move(start.bytes), start.header.bytes};
        return {read_all(file, start.header), start.check};
    } catch (const Hdf5Error& error) {
        throw StateError{path, "structure", error.what(), damaged_hint};
    }
}

}  // namespace rhizome::state
