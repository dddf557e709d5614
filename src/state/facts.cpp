#include "state/facts.hpp"

#include <algorithm>
#include <array>
#include <ctime>

namespace rhizome::state {

std::string_view name_of(Value value) {
    constexpr std::array<std::string_view, 3> names{"parameter", "first_moment", "second_moment"};
    return names.at(static_cast<std::size_t>(value));
}

std::int32_t StoredTable::chunks_of(std::int32_t tensor) const {
    const std::int64_t elements = tensors.at(static_cast<std::size_t>(tensor)).shape.elements();
    const std::int64_t chunks = (elements + chunk_elements - 1) / chunk_elements;
    ENSURE(chunks <= LayerTable::chunks_max);
    return static_cast<std::int32_t>(chunks);
}

std::int64_t StoredTable::first_element_of(StoredChunk chunk) const {
    ENSURE(chunk.chunk >= 0 && chunk.chunk < chunks_of(chunk.tensor));
    return chunk.chunk * chunk_elements;
}

std::int64_t StoredTable::elements_of(StoredChunk chunk) const {
    const auto& tensor = tensors.at(static_cast<std::size_t>(chunk.tensor));
    return std::min(chunk_elements, tensor.shape.elements() - first_element_of(chunk));
}

std::int64_t StoredTable::bytes_of(StoredChunk chunk) const {
    return elements_of(chunk) *
           rhizome::bytes_of(tensors.at(static_cast<std::size_t>(chunk.tensor)).dtype);
}

std::int64_t StoredTable::parameters() const {
    std::int64_t count = 0;
    for (const StoredTensor& tensor : tensors) count += tensor.shape.elements();
    return count;
}

std::vector<StoredChunk> StoredTable::all_chunks() const {
    std::vector<StoredChunk> all;
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(tensors.size()); ++t) {
        for (std::int32_t c = 0; c < chunks_of(t); ++c) all.push_back({t, c});
    }
    return all;
}

StoredTable stored_table_of(const LayerTable& table) {
    StoredTable stored{.tensors = {}, .ties = {}, .chunk_elements = table.chunk_elements};
    for (const TensorRef owned : table.owned()) {
        const TensorSpec& spec = table.at(owned).spec;
        stored.tensors.push_back({table.name_of(owned), spec.shape, spec.dtype});
    }
    for (const Tie& tie : table.ties()) {
        stored.ties.push_back({table.name_of(tie.use), table.name_of(tie.owner)});
    }
    return stored;
}

std::string utc_text(std::chrono::system_clock::time_point time) {
    const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
    std::tm parts{};
    ENSURE(gmtime_r(&seconds, &parts) != nullptr);
    std::array<char, 64> text{};
    ENSURE(std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts) > 0);
    return text.data();
}

}  // namespace rhizome::state
