// A disk in memory, for tests and simulated runs: it breaks, fills up, turns read-only, stops or
// loses power at whatever operation it is told to.
//
// What a loss of power leaves is drawn from a seed. Of a file: its bytes at the last sync(); of
// each write since then all, nothing, or the first bytes, and the file may have grown by the rest,
// zeros. Of a folder: its entries at the last sync_folder(); each change since then (created,
// renamed, removed) happened or did not, but changes of one name in their order. So a rename
// happened or did not, a file may be lost that was synced while its folder was not, and a folder
// that was being removed may be there with some of its entries.
//
// Several threads may use one disk. Invariant: it outlives its open files.
#pragma once

#include <array>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "state/file_system.hpp"

namespace rhizome::state {

class FakeNode;

/// The calls of the interface.
enum class FileOperation : std::uint8_t {
    create,
    open,
    bytes,
    read_at,
    write_at,
    sync,
    kind_of,
    list,
    make_folder,
    rename,
    sync_folder,
    remove_all,
};
inline constexpr std::size_t file_operations = 12;

class FakeDisk final : public FileSystem {
  public:
    FakeDisk();
    ~FakeDisk() override;

    // --- faults; operations are counted from 0, failed ones too ---

    /// This operation fails, once. A write then has written its first half, and a removal has
    /// removed some of what is in a folder.
    void fail_operation(std::int64_t number, std::errc reason);
    /// Likewise; the number counts operations of this kind.
    void fail_operation(FileOperation kind, std::int64_t number, std::errc reason);
    /// From this operation on all fail: whoever used the disk is dead. This one is half done, like
    /// one that fails.
    void stop_at(std::int64_t number);
    /// From this operation on, those fail that change something or sync.
    void read_only_from(std::int64_t number);
    /// Bytes of all files; a write beyond writes what fits and fails.
    void set_capacity(std::int64_t bytes);
    /// Did any of these happen?
    [[nodiscard]] bool fired() const;
    [[nodiscard]] std::int64_t operations() const;
    [[nodiscard]] std::int64_t operations(FileOperation kind) const;
    [[nodiscard]] std::int64_t bytes_used() const;

    // --- what is left ---

    /// After all processes were killed: everything that was written. Another disk, without faults.
    [[nodiscard]] std::shared_ptr<FakeDisk> after_kill() const;
    [[nodiscard]] std::shared_ptr<FakeDisk> after_power_loss(std::uint64_t seed) const;

    // --- behind the interface's back: no operations, no faults ---

    [[nodiscard]] std::vector<std::byte> content(const std::string& path) const;
    /// Replaces what is in a file, or makes it, with its folders. What is new is synced.
    void set_content(const std::string& path, std::vector<std::byte> bytes);
    /// Paths of all files, by name.
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
    static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

    class OpenFile;
    using NodePointer = std::shared_ptr<FakeNode>;
    struct Trouble;
    struct Place;

    [[nodiscard]] std::optional<Trouble> count(FileOperation kind);
    void count_or_fail(FileOperation kind, const std::string& path);
    [[nodiscard]] std::size_t room_at(const FakeNode& file, std::int64_t offset) const;
    [[nodiscard]] NodePointer find(const std::string& path) const;
    [[nodiscard]] NodePointer find_folder(const std::string& path) const;
    [[nodiscard]] Place place_of(const std::string& path) const;

    mutable std::mutex mutex_;  // guards all below, and the nodes
    NodePointer root_;
    std::int64_t operations_ = 0;
    std::array<std::int64_t, file_operations> operations_of_{};
    std::int64_t used_ = 0;
    std::int64_t capacity_ = never;
    std::int64_t stop_at_ = never;
    std::int64_t read_only_from_ = never;
    std::map<std::int64_t, std::errc> failures_;
    std::map<std::pair<FileOperation, std::int64_t>, std::errc> failures_of_;
    bool fired_ = false;
};

}  // namespace rhizome::state
