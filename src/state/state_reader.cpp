#include <algorithm>

#include "state/file_header.hpp"
#include "state/share_of_state.hpp"
#include "state/state_folder.hpp"
#include "state/stored_table.hpp"

namespace rhizome::state {

std::optional<std::string> why_misnamed(const std::string& path, std::int32_t steps) {
    const auto named = steps_of_name(path.substr(path.find_last_of('/') + 1));
    if (!named || *named == steps) return std::nullopt;
    return "has " + std::to_string(steps) + " steps in it, and its folder's name says " +
           std::to_string(*named);
}

StateReader::StateReader(std::shared_ptr<FileSystem> files, const std::string& path)
    : files_{std::move(files)},
      path_{path},
      index_{read_index(*files_, path + "/" + std::string{index_name})} {
    if (const auto reason = why_misnamed(path, index().facts.steps)) {
        throw StateError{path + "/" + std::string{index_name}, "name", *reason,
                         "give the folder its name back"};
    }
    std::size_t first = 0;
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(index().table.tensors.size()); ++t) {
        first_chunk_.push_back(first);
        first += static_cast<std::size_t>(index().table.chunks_of(t));
    }
}

void StateReader::read(StoredChunk chunk, Value value, std::span<std::byte> to) {
    share_of(chunk).read(chunk, value, to);
}

void StateReader::read_tensor(std::int32_t tensor, Value value, std::span<std::byte> to) {
    const StoredTable& table = index().table;
    for (std::int32_t c = 0; c < table.chunks_of(tensor); ++c) {
        const auto bytes = static_cast<std::size_t>(table.bytes_of({tensor, c}));
        ENSURE(to.size() >= bytes);
        read({tensor, c}, value, to.first(bytes));
        to = to.subspan(bytes);
    }
    ENSURE(to.empty());
}

const ShareReader& StateReader::share_of(StoredChunk chunk) {
    const StateIndex& state = index();
    ENSURE(chunk.chunk >= 0 && chunk.chunk < state.table.chunks_of(chunk.tensor));
    const std::int32_t writer =
        state.writer_of[first_chunk_[static_cast<std::size_t>(chunk.tensor)] +
                        static_cast<std::size_t>(chunk.chunk)];
    std::unique_ptr<ShareReader>& share = shares_[writer];
    if (!share) share = open_share(*files_, path_, state, writer);
    if (!share->digest_of(chunk, Value::parameter)) {
        throw StateError{path_ + "/" + share_name(writer), place_of(state.table, chunk),
                         "is not here, and the index says that it is", damaged_hint};
    }
    return *share;
}

}  // namespace rhizome::state
