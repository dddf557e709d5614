#include <algorithm>

#include "core/digest.hpp"
#include "state/file_header.hpp"
#include "state/share_of_state.hpp"
#include "state/state_folder.hpp"
#include "state/stored_table.hpp"

namespace rhizome::state {
namespace {

class Verifier {
  public:
    Verifier(FileSystem& files, std::string folder) : files_{files}, folder_{std::move(folder)} {}

    Verified run() {
        entries_ = files_.list(folder_);  // throws if there is no such folder
        std::optional<StateIndex> index;
        attempt(std::string{index_name}, [&] {
            if (!has_file(std::string{index_name})) {
                return fault(std::string{index_name}, "file", "is missing");
            }
            count_bytes(std::string{index_name});
            index = read_index(files_, path_of(std::string{index_name})).index;
        });
        if (index) {
            check_against(*index);
        } else {
            check_without_index();
        }
        return std::move(result_);
    }

  private:
    void check_against(const StateIndex& index) {
        if (const auto reason = why_misnamed(folder_, index.facts.steps)) {
            fault(std::string{index_name}, "name", *reason);
        }
        chunks_ = index.table.all_chunks();
        hexes_.assign(chunks_.size(), {});
        const auto writers = static_cast<std::int32_t>(index.shares.size());
        for (std::int32_t writer = 0; writer < writers; ++writer) check_share(index, writer);
        for (const Entry& entry : entries_) {
            if (entry.name != index_name && !is_share_below(entry.name, writers)) surplus(entry);
        }
        if (!result_.faults.empty()) return;
        Digest weights;
        for (std::size_t i = 0; i < chunks_.size(); ++i) {
            weights.add_text(place_of(index.table, chunks_[i]));
            weights.add_text(hexes_[i]);
        }
        result_.weights = weights.hex();
    }

    /// Tensors and chunks are not known then: headers and structure have to do.
    void check_without_index() {
        for (const Entry& entry : entries_) {
            if (entry.name == index_name) continue;
            if (!is_share_below(entry.name, INT32_MAX) || entry.kind != EntryKind::file) {
                surplus(entry);
                continue;
            }
            attempt(entry.name, [&] {
                count_bytes(entry.name);
                (void)read_start(files_, path_of(entry.name), FileKind::share);
            });
        }
    }

    void check_share(const StateIndex& index, std::int32_t writer) {
        const std::string name = share_name(writer);
        attempt(name, [&] {
            if (!has_file(name)) return fault(name, "file", "is missing");
            count_bytes(name);
            const ShareReader share{files_, path_of(name), index.table};
            if (const auto reason = why_foreign(share, index, writer)) {
                fault(name, "header", *reason);
            }
            check_values(share, index, name);
            for (std::size_t i = 0; i < chunks_.size(); ++i) {
                const bool here = share.digest_of(chunks_[i], Value::parameter).has_value();
                if (here == (index.writer_of[i] == writer)) continue;
                fault(name, place_of(index.table, chunks_[i]),
                      here ? "is here, and the index says that it is not"
                           : "is not here, and the index says that it is");
            }
        });
    }

    void check_values(const ShareReader& share, const StateIndex& index, const std::string& name) {
        std::vector<std::byte> bytes;
        for (const StoredChunk chunk : share.chunks()) {
            bytes.resize(static_cast<std::size_t>(index.table.bytes_of(chunk)));
            Digest digest;
            for (const Value value : all_values) {
                attempt(name, place_of(index.table, chunk, value), [&] {
                    share.read(chunk, value, bytes);
                    digest.add(bytes);
                });
            }
            const auto place = std::lower_bound(chunks_.begin(), chunks_.end(), chunk);
            hexes_[static_cast<std::size_t>(place - chunks_.begin())] = digest.hex();
        }
    }

    /// What can be wrong with a file is one fault more, and the next one gets its turn.
    template <class Check>
    void attempt(const std::string& name, const std::string& place, Check check) {
        try {
            check();
        } catch (const StateError& error) {
            fault(name, error.place, error.reason);
        } catch (const FileError& error) {
            fault(name, place, "cannot be read: " + error.reason());
        }
    }
    template <class Check>
    void attempt(const std::string& name, Check check) {
        attempt(name, "file", check);
    }

    void fault(const std::string& name, const std::string& place, const std::string& reason) {
        result_.faults.push_back({name, place, reason});
    }
    /// Hidden ones are none of a state's: file systems and people's tools leave such behind.
    void surplus(const Entry& entry) {
        if (!entry.name.starts_with('.')) fault(entry.name, "file", "is none of this state's");
    }
    [[nodiscard]] bool has_file(const std::string& name) const {
        return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
            return entry.name == name && entry.kind == EntryKind::file;
        });
    }
    void count_bytes(const std::string& name) {
        result_.bytes += files_.open(path_of(name))->bytes();
    }
    [[nodiscard]] std::string path_of(const std::string& name) const {
        return folder_ + "/" + name;
    }

    static bool is_share_below(const std::string& name, std::int32_t writers) {
        const auto writer = writer_of_name(name);
        return writer && *writer < writers;
    }

    FileSystem& files_;
    std::string folder_;
    std::vector<Entry> entries_;
    std::vector<StoredChunk> chunks_;
    std::vector<std::string> hexes_;  // of each chunk's values
    Verified result_;
};

}  // namespace

Verified verify_state(const std::shared_ptr<FileSystem>& files, const std::string& path) {
    return Verifier{*files, path}.run();
}

}  // namespace rhizome::state
