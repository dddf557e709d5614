#include "cli/state_write.hpp"

#include <algorithm>

#include "cli/state_places.hpp"
#include "core/error.hpp"

namespace rhizome::cli {
namespace {

/// Removes what was not finished.
class Aside {
  public:
    Aside(state::FileSystem& files, std::string path) : files_{files}, path_{std::move(path)} {}
    ~Aside() {
        try {
            files_.remove_all(path_);
        } catch (const state::FileError&) {  // the next one of this name removes it
        }
    }
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    state::FileSystem& files_;
    std::string path_;
};

/// Spans into the tensors, and into `zeros`, which has room for a chunk.
std::vector<state::ChunkValues> cut(const state::StoredTable& table,
                                    const std::vector<TensorValues>& tensors,
                                    const std::vector<std::byte>& zeros) {
    std::vector<state::ChunkValues> chunks;
    for (const state::StoredChunk chunk : table.all_chunks()) {
        const auto bytes = static_cast<std::size_t>(table.bytes_of(chunk));
        const auto tensor = static_cast<std::size_t>(chunk.tensor);
        const auto first = static_cast<std::size_t>(table.first_element_of(chunk) *
                                                    bytes_of(table.tensors[tensor].dtype));
        state::ChunkValues values{chunk, {}};
        for (std::size_t v = 0; v < values.values.size(); ++v) {
            const std::vector<std::byte>& all = tensors.at(tensor)[v];
            values.values[v] =
                all.empty() ? std::span{zeros}.first(bytes) : std::span{all}.subspan(first, bytes);
        }
        chunks.push_back(values);
    }
    return chunks;
}

void write_aside(state::FileSystem& files, const std::string& aside, const state::StateFacts& facts,
                 const state::StoredTable& table, const std::vector<TensorValues>& tensors) {
    const std::size_t chunks = table.all_chunks().size();
    std::int64_t longest = 0;
    for (const state::StoredChunk chunk : table.all_chunks()) {
        longest = std::max(longest, table.bytes_of(chunk));
    }
    const std::vector<std::byte> zeros(static_cast<std::size_t>(longest));
    files.remove_all(aside);
    files.make_folder(aside);
    const state::ShareFacts share =
        state::write_share(files, aside + "/" + state::share_name(0), table, facts.steps,
                           /*writer=*/0, cut(table, tensors, zeros));
    state::write_index(files, aside + "/" + std::string{state::index_name},
                       {facts, table, {share}, std::vector<std::int32_t>(chunks, 0)});
    files.sync_folder(aside);
}

void give_name(state::FileSystem& files, const std::string& aside, const std::string& path) {
    files.rename(aside, path);
    try {
        files.sync_folder(split_path(path).first);
    } catch (const state::FileError&) {
        files.remove_all(path);  // a failure leaves nothing behind
        throw;
    }
}

}  // namespace

void check_target(state::FileSystem& files, const std::string& path) {
    const auto [folder, name] = split_path(path);
    if (name.empty() || name == "." || name == "..") {
        throw ConfigError{"`" + visible(path) + "` (is no name for something new), give one"};
    }
    if (files.kind_of(path)) {
        throw ConfigError{visible(path) + " (is there already), give a new name, or remove it"};
    }
    if (files.kind_of(folder) != state::EntryKind::folder) {
        throw ConfigError{visible(path) + " (there is no folder " + visible(folder) +
                          "), make it, or name another place"};
    }
    if (files.kind_of(folder + "/" + std::string{state::index_name})) {
        throw ConfigError{visible(path) +
                          " (lies within a state, which would be damaged), name another place"};
    }
}

void write_state(state::FileSystem& files, const std::string& given, const state::StateFacts& facts,
                 const state::StoredTable& table, const std::vector<TensorValues>& tensors) {
    check_target(files, given);
    const auto [folder, name] = split_path(given);
    const std::string path = folder + "/" + name;
    const auto named = state::steps_of_name(name);
    if (named && *named != facts.steps) {
        throw ConfigError{visible(given) + " (is a name for " + counted(*named, "step") +
                          ", the state has " + std::to_string(facts.steps) + "), call it " +
                          state::state_name(facts.steps) + ", or something else"};
    }
    const Aside aside{files, folder + "/." + name + ".part"};
    try {
        write_aside(files, aside.path(), facts, table, tensors);
        give_name(files, aside.path(), path);
    } catch (const state::FileError& error) {
        throw ConfigError{visible(given) + " (cannot be written: " + visible(error.reason()) +
                          "), see to its folder, or name another place"};
    }
}

std::int64_t written_bytes(state::FileSystem& files, const std::string& path) {
    try {
        return bytes_at(files, path);
    } catch (const state::FileError&) {
        return 0;
    }
}

WrittenReport merge_state(const std::shared_ptr<state::FileSystem>& files, const std::string& from,
                          const std::string& to) {
    check_target(*files, to);
    state::StateReader reader{files, from};
    const state::StateIndex& index = reader.index();
    std::vector<TensorValues> tensors(index.table.tensors.size());
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        const state::StoredTensor& tensor = index.table.tensors[t];
        for (std::size_t v = 0; v < state::all_values.size(); ++v) {
            tensors[t][v].resize(
                static_cast<std::size_t>(tensor.shape.elements() * bytes_of(tensor.dtype)));
            reader.read_tensor(static_cast<std::int32_t>(t), state::all_values[v], tensors[t][v]);
        }
    }
    write_state(*files, to, index.facts, index.table, tensors);
    const std::int64_t bytes = written_bytes(*files, to);
    return {.from = from,
            .to = to,
            .steps = index.facts.steps,
            .parameters = index.table.parameters(),
            .bytes = bytes,
            .what = "state in one share"};
}

}  // namespace rhizome::cli
