// States for tests: small tensors of all kinds of shapes, with numbers that tell where they belong.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "state/state_folder.hpp"

namespace rhizome::state {

/// Two layers with tensors of one to four dimensions and both types; chunks of 16 elements, the
/// last ones shorter.
inline StoredTable sample_table() {
    StoredTable table{.tensors = {}, .ties = {}, .chunk_elements = 16};
    table.tensors = {{"embedding/token", Shape{11, 5}, DType::f32},
                     {"block.0/attention.weight", Shape{3, 4, 5}, DType::f64},
                     {"block.0/attention.bias", Shape{7}, DType::f32},
                     {"block.0/filter", Shape{2, 3, 2, 4}, DType::f32},
                     {"head/norm", Shape{16}, DType::f64}};
    table.ties = {{"head/weight", "embedding/token"}};
    return table;
}

inline StateFacts sample_facts(std::int32_t steps) {
    StateFacts facts;
    facts.steps = steps;
    facts.saved_at = "2026-11-30T05:48:35Z";
    facts.program = "rhizome 0.1.0";
    facts.mathematics = "layers = 2\nseed = 7\n";
    facts.layout = "pipelines = 2\n";
    facts.mathematics_digest = "0123456789abcdef0123456789abcdef";
    facts.data_digest = "fedcba9876543210fedcba9876543210";
    facts.fingerprint = "reference, x86-64-v3";
    facts.samples = std::int64_t{steps} * 8;
    facts.samples_per_pass = 1000;
    facts.history = {{"2026-11-30T05:00:00Z", 0, "started", "2 workers \"a\"\n"},
                     {"2026-11-30T05:48:35Z", steps, "saved", "\xc3\xa4, or not"}};
    return facts;
}

/// Of an element of a tensor, in a state of so many steps: no two are equal.
inline double sample_number(std::int32_t steps, std::int32_t tensor, Value value,
                            std::int64_t element) {
    return steps * 10000 + tensor * 1000 + static_cast<int>(value) * 300 +
           static_cast<double>(element) + 0.5;
}

/// All values of a state, each tensor in one piece.
class SampleValues {
  public:
    SampleValues(StoredTable table, std::int32_t steps) : table_{std::move(table)} {
        for (std::int32_t t = 0; t < static_cast<std::int32_t>(table_.tensors.size()); ++t) {
            for (const Value value : all_values) fill(steps, t, value);
        }
    }

    [[nodiscard]] std::span<const std::byte> of(std::int32_t tensor, Value value) const {
        return bytes_.at({tensor, value});
    }
    [[nodiscard]] std::span<const std::byte> of(StoredChunk chunk, Value value) const {
        const auto size = static_cast<std::size_t>(
            bytes_of(table_.tensors[static_cast<std::size_t>(chunk.tensor)].dtype));
        return of(chunk.tensor, value)
            .subspan(static_cast<std::size_t>(table_.first_element_of(chunk)) * size,
                     static_cast<std::size_t>(table_.bytes_of(chunk)));
    }
    [[nodiscard]] std::vector<ChunkValues> chunks(const std::vector<StoredChunk>& which) const {
        std::vector<ChunkValues> all;
        for (const StoredChunk chunk : which) {
            all.push_back({chunk,
                           {of(chunk, Value::parameter), of(chunk, Value::first_moment),
                            of(chunk, Value::second_moment)}});
        }
        return all;
    }

  private:
    void fill(std::int32_t steps, std::int32_t tensor, Value value) {
        const StoredTensor& facts = table_.tensors[static_cast<std::size_t>(tensor)];
        std::vector<std::byte>& bytes = bytes_[{tensor, value}];
        const auto size = static_cast<std::size_t>(bytes_of(facts.dtype));
        bytes.resize(static_cast<std::size_t>(facts.shape.elements()) * size);
        for (std::size_t e = 0; e * size < bytes.size(); ++e) {
            const double wide = sample_number(steps, tensor, value, static_cast<std::int64_t>(e));
            const auto narrow = static_cast<float>(wide);
            const void* from =
                facts.dtype == DType::f64 ? static_cast<const void*>(&wide) : &narrow;
            std::memcpy(bytes.data() + e * size, from, size);
        }
    }

    StoredTable table_;
    std::map<std::pair<std::int32_t, Value>, std::vector<std::byte>> bytes_;
};

/// Chunk i goes to writer i % writers.
inline std::vector<StoredChunk> chunks_of_writer(const StoredTable& table, std::int32_t writer,
                                                 std::int32_t writers) {
    std::vector<StoredChunk> mine;
    const std::vector<StoredChunk> all = table.all_chunks();
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (static_cast<std::int32_t>(i) % writers == writer) mine.push_back(all[i]);
    }
    return mine;
}

/// A whole state, written as a run does it. Returns its path.
inline std::string write_sample_state(FileSystem& files, const std::string& folder,
                                      std::int32_t steps, std::int32_t writers,
                                      const StoredTable& table = sample_table()) {
    const SampleValues values{table, steps};
    begin_state(files, folder, steps);
    for (std::int32_t w = 0; w < writers; ++w) {
        write_share(files, part_folder(folder, steps) + "/" + share_name(w), table, steps, w,
                    values.chunks(chunks_of_writer(table, w, writers)));
    }
    return commit_state(files, folder, sample_facts(steps), table, writers).path;
}

}  // namespace rhizome::state
