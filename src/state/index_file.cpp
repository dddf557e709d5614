#include "state/index_file.hpp"

#include <algorithm>

#include "core/digest.hpp"
#include "state/file_header.hpp"
#include "state/hdf5_objects.hpp"
#include "state/history_text.hpp"
#include "state/share_format.hpp"
#include "state/stored_table.hpp"

namespace rhizome::state {
namespace {

void check_index(const StateIndex& index) {
    ENSURE(!problem_of(index.table));
    ENSURE(index.facts.steps >= 0 && !index.shares.empty());
    for (std::size_t i = 0; i < index.shares.size(); ++i) {
        ENSURE(index.shares[i].writer == static_cast<std::int32_t>(i));
    }
    std::size_t chunks = 0;
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(index.table.tensors.size()); ++t) {
        chunks += static_cast<std::size_t>(index.table.chunks_of(t));
    }
    ENSURE(index.writer_of.size() == chunks);
    for (const std::int32_t writer : index.writer_of) {
        ENSURE(writer >= 0 && static_cast<std::size_t>(writer) < index.shares.size());
    }
}

void write_facts(hid_t root, const StateIndex& index) {
    const StateFacts& facts = index.facts;
    write_words(root, "format", index_format);
    write_number(root, "version", format_version);
    write_number(root, "steps", facts.steps);
    write_number(root, "samples", facts.samples);
    write_number(root, "samples_per_pass", facts.samples_per_pass);
    write_number(root, "chunk_elements", index.table.chunk_elements);
    write_words(root, "saved_at", facts.saved_at);
    write_words(root, "program", facts.program);
    write_words(root, "fingerprint", facts.fingerprint);
    write_words(root, "mathematics_digest", facts.mathematics_digest);
    write_words(root, "data_digest", facts.data_digest);
    write_text(root, "mathematics", facts.mathematics);
    write_text(root, "layout", facts.layout);
    write_text(root, "history", history_text(facts.history));
    std::string ties;
    for (const StoredTie& tie : index.table.ties) ties += tie.use + " = " + tie.owner + "\n";
    write_text(root, "ties", ties);
}

void write_shares(hid_t root, std::span<const ShareFacts> shares) {
    std::vector<std::int64_t> bytes;
    std::string digests;
    for (const ShareFacts& share : shares) {
        ENSURE(share.digest.size() == 2 * digest_bytes);
        bytes.push_back(share.bytes);
        digests += share.digest;
    }
    const Handle group = create_group(root, "shares");
    write_table(group.id(), "bytes", H5T_STD_I64LE, {shares.size()},
                std::as_bytes(std::span{bytes}));
    const Handle type = make_text_type(2 * digest_bytes);
    write_table(group.id(), "digest", type.id(), {shares.size()},
                std::as_bytes(std::span{digests}));
}

/// Chunks that follow one another in the tensor and in one share.
struct Run {
    std::int32_t writer;
    std::int64_t first;  // element of the tensor
    std::int64_t count;
    std::int64_t first_there;  // element of what the share has of the tensor
};

struct Runs {
    std::vector<Run> runs;
    std::vector<std::int64_t> elements_in;  // of the tensor, in each share
};

Runs runs_of(const StateIndex& index, std::int32_t tensor, std::span<const std::int32_t> writers) {
    Runs all{.runs = {}, .elements_in = std::vector<std::int64_t>(index.shares.size())};
    for (std::int32_t c = 0; c < static_cast<std::int32_t>(writers.size()); ++c) {
        const StoredChunk chunk{tensor, c};
        const std::int32_t writer = writers[static_cast<std::size_t>(c)];
        std::int64_t& there = all.elements_in[static_cast<std::size_t>(writer)];
        const std::int64_t elements = index.table.elements_of(chunk);
        if (all.runs.empty() || all.runs.back().writer != writer) {
            all.runs.push_back({writer, index.table.first_element_of(chunk), 0, there});
        }
        all.runs.back().count += elements;
        there += elements;
    }
    return all;
}

void write_tensor(hid_t group, const StateIndex& index, std::int32_t place,
                  std::span<const std::int32_t> writers) {
    const StoredTensor& tensor = index.table.tensors[static_cast<std::size_t>(place)];
    std::vector<std::int64_t> shape;
    for (std::size_t d = 0; d < tensor.shape.dimensions(); ++d) shape.push_back(tensor.shape[d]);
    write_number(group, "order", place);
    write_numbers(group, "shape", shape);
    write_words(group, "dtype", dtype_name(tensor.dtype));
    write_table(group, "writer", H5T_STD_I32LE, {writers.size()}, std::as_bytes(writers));
    const Runs all = runs_of(index, place, writers);
    for (const Value value : all_values) {
        const std::string name{name_of(value)};
        VirtualTensor whole{tensor.shape, tensor.dtype};
        for (const Run& run : all.runs) {
            whole.add_run(run.first, run.count, share_name(run.writer),
                          "/tensors/" + tensor.name + "/" + name,
                          all.elements_in[static_cast<std::size_t>(run.writer)], run.first_there);
        }
        whole.create(group, name);
    }
}

Image lay_out(const StateIndex& index) {
    Hdf5File file{header_bytes};
    {
        write_facts(file.id(), index);
        write_shares(file.id(), index.shares);
        const Handle tensors = create_group(file.id(), "tensors");
        std::span<const std::int32_t> writers = index.writer_of;
        for (std::int32_t t = 0; t < static_cast<std::int32_t>(index.table.tensors.size()); ++t) {
            const std::string& name = index.table.tensors[static_cast<std::size_t>(t)].name;
            const auto [layer_name, tensor_name] = split_name(name).value();
            const Handle layer = has_link(tensors.id(), layer_name)
                                     ? open_group(tensors.id(), layer_name)
                                     : create_group(tensors.id(), layer_name);
            const auto chunks = static_cast<std::size_t>(index.table.chunks_of(t));
            write_tensor(create_group(layer.id(), tensor_name).id(), index, t,
                         writers.first(chunks));
            writers = writers.subspan(chunks);
        }
    }
    file.start_placing();  // nothing: an index has no values
    Image image = file.close();
    ENSURE(image.allocated == static_cast<std::int64_t>(image.bytes.size()));
    return image;
}

}  // namespace

void write_index(FileSystem& files, const std::string& path, const StateIndex& index) {
    check_index(index);
    const Image image = image_or_file_error(path, [&] { return lay_out(index); });
    const auto file = files.create(path);
    (void)write_start(*file, {.kind = FileKind::index, .steps = index.facts.steps}, image);
}

}  // namespace rhizome::state
