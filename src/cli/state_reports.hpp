// What the verbs of `rhizome-state` find out, as plain data. A table for people and a JSON document
// for machines are made of each (state_tables.hpp, state_json.hpp), so that both say the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/state_values.hpp"
#include "state/state_folder.hpp"

namespace rhizome::cli {

/// A state as far as its structure goes; its values were not read.
struct ListedState {
    std::string path{};
    std::int32_t steps = 0;  // by its name, or by what it says where the name says nothing
    std::string saved_at{};  // empty if it cannot be read
    std::int64_t bytes = 0;
    std::string problem{};  // empty: whole
};

/// A hidden folder: of a save that is under way or did not come to its end.
struct Leftover {
    std::string path;
    std::int64_t bytes;
};

struct ListReport {
    std::string folder{};
    std::vector<ListedState> states{};  // by steps
    std::vector<Leftover> leftovers{};
};

/// The newest of those that are whole, if any.
[[nodiscard]] std::optional<std::size_t> newest_whole(const std::vector<ListedState>& states);

struct ListedTensor {
    state::StoredTensor tensor;
    std::int32_t chunks;
    std::vector<std::int32_t> writers;  // ascending, each once
};

struct ShowReport {
    std::string path{};
    std::string digest{};  // of all in it
    std::int64_t bytes = 0;
    std::int64_t shares = 0;
    std::int64_t chunk_elements = 0;
    std::int64_t parameters = 0;
    state::StateFacts facts{};
    std::vector<ListedTensor> tensors{};
    std::vector<state::StoredTie> ties{};
};

struct ShownValue {
    state::Value value;
    Statistics statistics;
    std::vector<double> first;  // some, from the beginning
};

struct TensorReport {
    std::string path{};
    std::int32_t steps = 0;
    std::string use{};  // the name that was asked for, where it is tied to the tensor
    state::StoredTensor tensor{};
    std::int32_t chunks = 0;
    std::vector<ShownValue> values{};
};

struct VerifiedState {
    std::string path;
    state::Verified verified;
};

struct VerifyReport {
    std::vector<VerifiedState> states{};
    [[nodiscard]] bool whole() const;
};

/// Something that two states say differently of themselves. Empty: does not say it.
struct FactDifference {
    std::string name;
    std::string a;
    std::string b;
};

struct TensorDifference {
    std::string name{};
    Shape shape{};
    state::Value value{};
    /// Why no numbers were compared: in one of the two only, another shape, another type.
    std::string mismatch{};
    Difference numbers{};
};

struct DiffReport {
    std::string a{};
    std::string b{};
    std::optional<double> tolerance{};
    std::vector<FactDifference> facts{};
    std::vector<TensorDifference> tensors{};  // those that differ
    std::int64_t values = 0;                  // of a, that were asked about
    std::int64_t values_read = 0;             // the others' digests were equal
    [[nodiscard]] bool equal() const { return tensors.empty(); }
};

struct HistoryReport {
    std::string path{};
    std::vector<state::Event> history{};
};

struct PruneReport {
    std::string folder{};
    state::KeepRule rule{};
    bool dry_run = false;
    std::vector<ListedState> removed{};
    std::vector<ListedState> kept{};
    std::vector<ListedState> damaged{};  // left alone
};

/// A state or file that was made of another.
struct WrittenReport {
    std::string from{};
    std::string to{};
    std::int32_t steps = 0;
    std::int64_t parameters = 0;
    std::int64_t bytes = 0;
    std::string what{};  // "state", "GPT-2 weights", "raw state"
};

}  // namespace rhizome::cli
