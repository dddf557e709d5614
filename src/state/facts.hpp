// What a state says about itself: everything in it but the numbers. docs/STATE.md has the format.
//
// A state is a folder, one HDF5 file per writer (its share of the chunks) and an index. Keys are
// names of layers and tensors, never of stages or ranks, so any layout can read what any other has
// written.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/layer_table.hpp"
#include "core/shape.hpp"

namespace rhizome::state {

/// What is stored of each chunk.
enum class Value : std::uint8_t { parameter, first_moment, second_moment };

inline constexpr std::array all_values{Value::parameter, Value::first_moment, Value::second_moment};

/// "parameter", "first_moment", "second_moment": as the datasets are called.
[[nodiscard]] std::string_view name_of(Value value);

/// A tensor that is owned, hence stored.
struct StoredTensor {
    std::string name;  // "block.3/attention.weight": layer, then tensor
    Shape shape;       // no scalars
    DType dtype;       // f32 or f64; moments have it as well
    friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};

/// A second use of a stored tensor, which is not stored.
struct StoredTie {
    std::string use;    // "head/weight"
    std::string owner;  // "embedding/token"
    friend bool operator==(const StoredTie&, const StoredTie&) = default;
};

/// Place of a tensor in the table, and a chunk of it.
struct StoredChunk {
    std::int32_t tensor;
    std::int32_t chunk;
    friend auto operator<=>(const StoredChunk&, const StoredChunk&) = default;
};

/// The tensors of a state, in the order of their identity.
struct StoredTable {
    std::vector<StoredTensor> tensors;
    std::vector<StoredTie> ties;
    std::int64_t chunk_elements = 0;

    [[nodiscard]] std::int32_t chunks_of(std::int32_t tensor) const;
    [[nodiscard]] std::int64_t first_element_of(StoredChunk chunk) const;
    [[nodiscard]] std::int64_t elements_of(StoredChunk chunk) const;
    [[nodiscard]] std::int64_t bytes_of(StoredChunk chunk) const;  // of one of its values
    [[nodiscard]] std::int64_t parameters() const;
    [[nodiscard]] std::vector<StoredChunk> all_chunks() const;  // ascending
    friend bool operator==(const StoredTable&, const StoredTable&) = default;
};

/// Owned tensors of a network. Their places are those in LayerTable::owned().
[[nodiscard]] StoredTable stored_table_of(const LayerTable& table);

/// Something that happened to the training, in this run or in one that it goes on from.
struct Event {
    std::string time;    // UTC, "2026-11-30T05:48:35Z"
    std::int32_t steps;  // that were done when it happened
    std::string kind;    // "started", "resumed", "saved", "save failed", "stopped", "done", ...
    std::string text;    // for people
    friend bool operator==(const Event&, const Event&) = default;
};

struct StateFacts {
    std::int32_t steps = 0;  // that are in it
    std::string saved_at{};  // UTC, as in Event
    std::string program{};   // "rhizome 0.1.0"
    /// Keys as lines of `key = value`: those that decide the weights, and the others.
    std::string mathematics{};
    std::string layout{};
    std::string mathematics_digest{};  // with the content of the training data
    std::string data_digest{};         // that content's
    std::string fingerprint{};         // device, build, instruction set, C library
    /// Where the sampler stands: samples used so far, how many a pass has.
    std::int64_t samples = 0;
    std::int64_t samples_per_pass = 0;
    std::vector<Event> history{};
    friend bool operator==(const StateFacts&, const StateFacts&) = default;
};

/// This moment, or that one, as in Event.
[[nodiscard]] std::string utc_text(std::chrono::system_clock::time_point time);

}  // namespace rhizome::state
