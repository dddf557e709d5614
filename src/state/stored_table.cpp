#include "state/stored_table.hpp"

#include <algorithm>
#include <set>

namespace rhizome::state {
namespace {

/// Of all tensors together; their bytes still fit into 64 bits.
constexpr std::int64_t elements_max = std::int64_t{1} << 56;

bool is_word(std::string_view word) {
    const bool plain = std::all_of(word.begin(), word.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '.' || c == '_' || c == '-';
    });
    // HDF5 takes "." for the group itself.
    return plain && word.find_first_not_of('.') != std::string_view::npos;
}

/// Without an overflow on the way.
bool has_elements_within(const Shape& shape, std::int64_t most) {
    for (std::size_t d = 0; d < shape.dimensions(); ++d) {
        if (shape[d] > most) return false;
        most /= shape[d];
    }
    return true;
}

std::optional<std::string> problem_of(const StoredTensor& tensor, std::int64_t chunk_elements,
                                      std::int64_t elements_left) {
    if (!split_name(tensor.name)) return "no tensor can be called " + tensor.name;
    if (tensor.shape.dimensions() == 0) return tensor.name + " has no shape";
    if (tensor.dtype == DType::i32) return tensor.name + " has whole numbers";
    if (!has_elements_within(tensor.shape, elements_left)) return tensor.name + " is too large";
    if ((tensor.shape.elements() - 1) / chunk_elements >= LayerTable::chunks_max) {
        return tensor.name + " has too many chunks";
    }
    return std::nullopt;
}

}  // namespace

std::optional<std::pair<std::string, std::string>> split_name(std::string_view name) {
    const std::size_t slash = name.find('/');
    if (slash == std::string_view::npos) return std::nullopt;
    const std::string_view layer = name.substr(0, slash);
    const std::string_view tensor = name.substr(slash + 1);
    if (!is_word(layer) || !is_word(tensor)) return std::nullopt;
    return std::pair{std::string{layer}, std::string{tensor}};
}

std::optional<std::string> problem_of(const StoredTable& table) {
    if (table.chunk_elements < 1) return "chunks have no elements";
    std::set<std::string_view> owned;
    std::int64_t left = elements_max;
    for (const StoredTensor& tensor : table.tensors) {
        if (auto problem = problem_of(tensor, table.chunk_elements, left)) return problem;
        left -= tensor.shape.elements();
        if (!owned.insert(tensor.name).second) return "there are two tensors " + tensor.name;
    }
    std::set<std::string_view> used;
    for (const StoredTie& tie : table.ties) {
        if (!split_name(tie.use)) return "no tensor can be called " + tie.use;
        if (!owned.contains(tie.owner)) return tie.use + " is tied to nothing";
        if (owned.contains(tie.use) || !used.insert(tie.use).second) {
            return "there are two tensors " + tie.use;
        }
    }
    return std::nullopt;
}

std::string place_of(const StoredTable& table, StoredChunk chunk) {
    return table.tensors.at(static_cast<std::size_t>(chunk.tensor)).name + "#" +
           std::to_string(chunk.chunk);
}

std::string place_of(const StoredTable& table, StoredChunk chunk, Value value) {
    return place_of(table, chunk) + " " + std::string{name_of(value)};
}

}  // namespace rhizome::state
