// A disk in memory, for tests and simulated runs: it breaks, fills up, or loses power at whatever
// operation it is told to.
//
// What a loss of power leaves: of a file, its bytes at the last sync(), and of each write since
// then all, none or a first part. Of a folder, its entries at the last sync_folder(), and of the
// changes since then the first so many, as a journal keeps them; so a rename happened or did not.
// Chance comes from a seed.
//
// Several threads may use one disk.
#pragma once

#include <map>
#include <mutex>

#include "state/file_system.hpp"

namespace rhizome::state {

class FakeDisk final : public FileSystem {
  public:
    FakeDisk();
    ~FakeDisk() override;

    // --- faults; operations are all calls of the interface and are counted from 0 ---

    /// This operation fails, once.
    void fail_operation(std::int64_t number, std::errc reason);
    /// From this operation on all fail: whoever used the disk is dead.
    void stop_at(std::int64_t number);
    /// Bytes of all files; a write beyond writes what fits and fails.
    void set_capacity(std::int64_t bytes);
    /// Did any of these happen?
    [[nodiscard]] bool fired() const;
    [[nodiscard]] std::int64_t operations() const;
    [[nodiscard]] std::int64_t bytes_used() const;

    // --- what is left ---

    /// After all processes were killed: everything that was written. Another disk, without faults.
    [[nodiscard]] std::shared_ptr<FakeDisk> after_kill() const;
    [[nodiscard]] std::shared_ptr<FakeDisk> after_power_loss(std::uint64_t seed) const;

    // --- behind the interface's back: no operations, no faults ---

    [[nodiscard]] std::vector<std::byte> content(const std::string& path) const;
    /// Makes the file, with its folders, or replaces what is in it.
    void set_content(const std::string& path, std::vector<std::byte> bytes);
    /// Paths of all files.
    [[nodiscard]] std::vector<std::string> files() const;

    std::unique_ptr<File> create(const std::string& path) override;
    std::unique_ptr<File> open(const std::string& path) override;
    std::optional<EntryKind> kind_of(const std::string& path) override;
    std::vector<Entry> list(const std::string& folder) override;
    void make_folder(const std::string& path) override;
    void rename(const std::string& from, const std::string& to) override;
    void sync_folder(const std::string& path) override;
    void remove_all(const std::string& path) override;

  private:
    struct Node;
    class OpenFile;
    using NodePointer = std::shared_ptr<Node>;
    using Entries = std::map<std::string, NodePointer>;

    void count(const std::string& path);
    [[nodiscard]] NodePointer find(const std::string& path) const;
    [[nodiscard]] NodePointer find_folder(const std::string& path) const;
    void change(const std::string& path, NodePointer to);

    mutable std::mutex mutex_;
    NodePointer root_;
    std::int64_t operations_ = 0;
    std::int64_t used_ = 0;
    std::int64_t capacity_;
    std::int64_t stop_at_;
    std::map<std::int64_t, std::errc> failures_;
    bool fired_ = false;
};

}  // namespace rhizome::state
