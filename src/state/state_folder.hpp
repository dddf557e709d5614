// States of a run: FOLDER/step-00000500/, whole under that name. How one comes to be:
//
//   begin_state     FOLDER/.step-00000500.part/        by one process
//   write_share     .../share-00000.h5 ...             by every writer, in parallel
//   commit_state    .../index.h5, sync, rename         by one process, when all shares are written
//
// Whoever dies on the way leaves a hidden folder, which the next begin_state removes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "state/index_file.hpp"

namespace rhizome::state {

/// "step-00000500"
[[nodiscard]] std::string state_name(std::int32_t steps);
[[nodiscard]] std::optional<std::int32_t> steps_of_name(std::string_view name);
/// FOLDER/.step-00000500.part
[[nodiscard]] std::string part_folder(const std::string& folder, std::int32_t steps);

struct FoundState {
    std::string path;
    std::int32_t steps;
    friend bool operator==(const FoundState&, const FoundState&) = default;
};

/// All that have a final name, newest first; none where there is nothing of that name. Looks into
/// none of them. Throws FileError.
[[nodiscard]] std::vector<FoundState> find_states(FileSystem& files, const std::string& folder);

/// What processes that died have left: hidden folders are removed, and a state that was about to be
/// replaced gets its name back. For whoever has the folder to himself. Throws FileError.
void clean_up_states(FileSystem& files, const std::string& folder);

/// Makes the hidden folder, after cleaning up. Throws FileError.
void begin_state(FileSystem& files, const std::string& folder, std::int32_t steps);

/// Reads the shares up to their values, writes the index, syncs, renames: then the state is there.
/// A state of that many steps that is there already is replaced (it has the same content, or is
/// damaged). Throws FileError, StateError.
FoundState commit_state(FileSystem& files, const std::string& folder, const StateFacts& facts,
                        const StoredTable& table, std::int32_t writers);

/// Removes the hidden folder.
void abandon_state(FileSystem& files, const std::string& folder, std::int32_t steps);

/// Which states to keep.
struct KeepRule {
    std::int32_t last = 2;   // the newest so many; at least 1
    std::int32_t every = 0;  // and those whose steps are a multiple; 0: none
};

/// Those that the rule does not keep, oldest first.
[[nodiscard]] std::vector<FoundState> to_prune(std::span<const FoundState> states, KeepRule rule);
/// Removes a state: renamed to a hidden name first, so that no half of it is ever found.
void remove_state(FileSystem& files, const FoundState& state);

/// Reads a state's values; opens each share when it is first needed.
class StateReader {
  public:
    /// Checks the index. `path` is the state's folder. Throws StateError, FileError.
    StateReader(std::shared_ptr<FileSystem> files, const std::string& path);

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] const StateIndex& index() const { return index_.index; }
    [[nodiscard]] const std::string& digest() const { return index_.digest; }

    /// Checked against digest and index. Throws StateError, FileError.
    void read(StoredChunk chunk, Value value, std::span<std::byte> to);
    /// All chunks of a tensor.
    void read_tensor(std::int32_t tensor, Value value, std::span<std::byte> to);
    /// The share that has a chunk, checked against the index.
    [[nodiscard]] const ShareReader& share_of(StoredChunk chunk);

  private:
    std::shared_ptr<FileSystem> files_;
    std::string path_;
    IndexFile index_;
    std::vector<std::size_t> first_chunk_;                         // of each tensor, in writer_of
    std::map<std::int32_t, std::unique_ptr<ShareReader>> shares_;  // by writer
};

/// What is wrong with a state; every byte of it is read.
struct Fault {
    std::string file;   // within the state's folder
    std::string place;  // as in StateError
    std::string reason;
};
struct Verified {
    std::vector<Fault> faults{};  // none: it is whole
    std::int64_t bytes = 0;       // of all its files
    /// As a run's last table shows it: one digest of all values. Empty if there are faults.
    std::string weights{};
};
/// Throws FileError if there is no such folder.
[[nodiscard]] Verified verify_state(const std::shared_ptr<FileSystem>& files,
                                    const std::string& path);

}  // namespace rhizome::state
