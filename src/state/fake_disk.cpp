#include "state/fake_disk.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <random>

#include "core/error.hpp"

namespace rhizome::state {
namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

using Bytes = std::vector<std::byte>;

struct Write {
    std::size_t offset;
    Bytes bytes;
};

void apply(Bytes& to, const Write& write, std::size_t count) {
    if (count == 0) return;
    to.resize(std::max(to.size(), write.offset + count));
    std::copy_n(write.bytes.begin(), count, to.begin() + static_cast<std::ptrdiff_t>(write.offset));
}

[[noreturn]] void fail(const std::string& path, std::errc reason) {
    const std::error_code code = std::make_error_code(reason);
    throw FileError{path, code.message(), code};
}

std::vector<std::string> names_of(const std::string& path) {
    std::vector<std::string> names;
    std::size_t begin = 0;
    while (begin <= path.size()) {
        const std::size_t end = std::min(path.find('/', begin), path.size());
        const std::string name = path.substr(begin, end - begin);
        if (!name.empty() && name != ".") names.push_back(name);
        begin = end + 1;
    }
    return names;
}

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }
std::string last_name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

struct FakeDisk::Node {
    EntryKind kind = EntryKind::file;
    // Of a file.
    Bytes bytes;
    Bytes synced;
    std::vector<Write> unsynced;
    // Of a folder.
    Entries entries;
    Entries synced_entries;
    struct Change {
        std::string removed;  // a name, if not empty
        std::string added;    // likewise; both: a rename
        NodePointer node;     // of the added one
    };
    std::vector<Change> changes;  // since then

    [[nodiscard]] std::int64_t size() const {
        std::int64_t size = static_cast<std::int64_t>(bytes.size());
        for (const auto& [name, node] : entries) size += node->size();
        return size;
    }

    [[nodiscard]] NodePointer as_it_is() const {
        auto copy = std::make_shared<Node>();
        copy->kind = kind;
        copy->bytes = bytes;
        copy->synced = bytes;
        for (const auto& [name, node] : entries) copy->entries[name] = node->as_it_is();
        copy->synced_entries = copy->entries;
        return copy;
    }

    [[nodiscard]] NodePointer after_power_loss(std::mt19937_64& random) const {
        auto copy = std::make_shared<Node>();
        copy->kind = kind;
        copy->bytes = synced;
        for (const Write& write : unsynced) {
            const std::size_t whole = write.bytes.size();
            const std::array<std::size_t, 3> counts{0, whole / 2, whole};
            apply(copy->bytes, write, counts.at(random() % counts.size()));
        }
        copy->synced = copy->bytes;
        Entries left = synced_entries;
        for (std::size_t i = random() % (changes.size() + 1), next = 0; next < i; ++next) {
            const Change& change = changes[next];
            left.erase(change.removed);
            if (change.node) left[change.added] = change.node;
        }
        for (const auto& [name, node] : left) copy->entries[name] = node->after_power_loss(random);
        copy->synced_entries = copy->entries;
        return copy;
    }

    void list_files(const std::string& path, std::vector<std::string>& files) const {
        if (kind == EntryKind::file) files.push_back(path);
        for (const auto& [name, node] : entries) {
            node->list_files(path.empty() ? name : path + "/" + name, files);
        }
    }
};

class FakeDisk::OpenFile final : public File {
  public:
    OpenFile(FakeDisk& disk, std::string path, NodePointer node, bool writable)
        : disk_{disk}, path_{std::move(path)}, node_{std::move(node)}, writable_{writable} {}

    [[nodiscard]] const std::string& path() const override { return path_; }

    [[nodiscard]] std::int64_t bytes() const override {
        const std::lock_guard lock{disk_.mutex_};
        disk_.count(path_);
        return static_cast<std::int64_t>(node_->bytes.size());
    }

    void read_at(std::int64_t offset, std::span<std::byte> to) const override {
        const std::lock_guard lock{disk_.mutex_};
        disk_.count(path_);
        const auto begin = static_cast<std::size_t>(offset);
        const std::size_t size = node_->bytes.size();
        if (begin > size || to.size() > size - begin) {
            throw FileError{path_, "ends at byte " + std::to_string(size)};
        }
        std::copy_n(node_->bytes.begin() + offset, to.size(), to.begin());
    }

    void write_at(std::int64_t offset, std::span<const std::byte> from) override {
        const std::lock_guard lock{disk_.mutex_};
        disk_.count(path_);
        if (!writable_) fail(path_, std::errc::bad_file_descriptor);
        const auto size = static_cast<std::int64_t>(node_->bytes.size());
        const std::int64_t end = std::max(size, offset + static_cast<std::int64_t>(from.size()));
        const std::int64_t fits = std::min(end, size + (disk_.capacity_ - disk_.used_));
        const auto count = static_cast<std::size_t>(
            std::clamp<std::int64_t>(fits - offset, 0, static_cast<std::int64_t>(from.size())));
        Write write{static_cast<std::size_t>(offset), Bytes(from.begin(), from.end())};
        write.bytes.resize(count);
        apply(node_->bytes, write, count);
        disk_.used_ += static_cast<std::int64_t>(node_->bytes.size()) - size;
        node_->unsynced.push_back(std::move(write));
        if (count < from.size()) {
            disk_.fired_ = true;
            fail(path_, std::errc::no_space_on_device);
        }
    }

    void sync() override {
        const std::lock_guard lock{disk_.mutex_};
        disk_.count(path_);
        node_->synced = node_->bytes;
        node_->unsynced.clear();
    }

  private:
    FakeDisk& disk_;
    std::string path_;
    NodePointer node_;
    bool writable_;
};

FakeDisk::FakeDisk() : root_{std::make_shared<Node>()}, capacity_{never}, stop_at_{never} {
    root_->kind = EntryKind::folder;
}

FakeDisk::~FakeDisk() = default;

void FakeDisk::fail_operation(std::int64_t number, std::errc reason) { failures_[number] = reason; }
void FakeDisk::stop_at(std::int64_t number) { stop_at_ = number; }
void FakeDisk::set_capacity(std::int64_t bytes) { capacity_ = bytes; }

bool FakeDisk::fired() const {
    const std::lock_guard lock{mutex_};
    return fired_;
}

std::int64_t FakeDisk::operations() const {
    const std::lock_guard lock{mutex_};
    return operations_;
}

std::int64_t FakeDisk::bytes_used() const {
    const std::lock_guard lock{mutex_};
    return used_;
}

std::shared_ptr<FakeDisk> FakeDisk::after_kill() const {
    const std::lock_guard lock{mutex_};
    auto disk = std::make_shared<FakeDisk>();
    disk->root_ = root_->as_it_is();
    disk->used_ = disk->root_->size();
    return disk;
}

std::shared_ptr<FakeDisk> FakeDisk::after_power_loss(std::uint64_t seed) const {
    const std::lock_guard lock{mutex_};
    std::mt19937_64 random{seed};
    auto disk = std::make_shared<FakeDisk>();
    disk->root_ = root_->after_power_loss(random);
    disk->used_ = disk->root_->size();
    return disk;
}

std::vector<std::byte> FakeDisk::content(const std::string& path) const {
    const std::lock_guard lock{mutex_};
    const NodePointer node = find(path);
    ENSURE(node != nullptr && node->kind == EntryKind::file);
    return node->bytes;
}

void FakeDisk::set_content(const std::string& path, std::vector<std::byte> bytes) {
    const std::lock_guard lock{mutex_};
    NodePointer at = root_;
    for (const std::string& name : names_of(path)) {
        NodePointer& next = at->entries[name];
        if (next == nullptr) {
            next = std::make_shared<Node>();
            next->kind = EntryKind::folder;
        }
        at->synced_entries[name] = next;
        at = next;
    }
    at->kind = EntryKind::file;
    at->bytes = std::move(bytes);
    at->synced = at->bytes;
    at->unsynced.clear();
    used_ = root_->size();
}

std::vector<std::string> FakeDisk::files() const {
    const std::lock_guard lock{mutex_};
    std::vector<std::string> files;
    root_->list_files("", files);
    return files;
}

/// Of every operation, first thing.
void FakeDisk::count(const std::string& path) {
    const std::int64_t number = operations_++;
    const auto failure = failures_.find(number);
    if (number < stop_at_ && failure == failures_.end()) return;
    fired_ = true;
    fail(path, failure == failures_.end() ? std::errc::io_error : failure->second);
}

FakeDisk::NodePointer FakeDisk::find(const std::string& path) const {
    NodePointer at = root_;
    for (const std::string& name : names_of(path)) {
        const auto next = at->entries.find(name);
        if (next == at->entries.end()) return nullptr;
        at = next->second;
    }
    return at;
}

FakeDisk::NodePointer FakeDisk::find_folder(const std::string& path) const {
    NodePointer folder = find(path);
    if (folder == nullptr) fail(path, std::errc::no_such_file_or_directory);
    if (folder->kind != EntryKind::folder) fail(path, std::errc::not_a_directory);
    return folder;
}

/// What the path leads to from now on; null: nothing. Its folder must be there.
void FakeDisk::change(const std::string& path, NodePointer to) {
    const std::string name = last_name_of(path);
    const NodePointer folder =
        path.find('/') == std::string::npos ? root_ : find_folder(parent_of(path));
    if (to) {
        folder->changes.push_back({"", name, to});
        folder->entries[name] = std::move(to);
    } else {
        folder->changes.push_back({name, "", nullptr});
        folder->entries.erase(name);
    }
}

std::unique_ptr<File> FakeDisk::create(const std::string& path) {
    const std::lock_guard lock{mutex_};
    count(path);
    if (find(path)) fail(path, std::errc::file_exists);
    auto node = std::make_shared<Node>();
    change(path, node);
    return std::make_unique<OpenFile>(*this, path, std::move(node), true);
}

std::unique_ptr<File> FakeDisk::open(const std::string& path) {
    const std::lock_guard lock{mutex_};
    count(path);
    NodePointer node = find(path);
    if (node == nullptr) fail(path, std::errc::no_such_file_or_directory);
    if (node->kind != EntryKind::file) throw FileError{path, "is no file"};
    return std::make_unique<OpenFile>(*this, path, std::move(node), false);
}

std::optional<EntryKind> FakeDisk::kind_of(const std::string& path) {
    const std::lock_guard lock{mutex_};
    count(path);
    const NodePointer node = find(path);
    return node ? std::optional{node->kind} : std::nullopt;
}

std::vector<Entry> FakeDisk::list(const std::string& folder) {
    const std::lock_guard lock{mutex_};
    count(folder);
    std::vector<Entry> entries;
    for (const auto& [name, node] : find_folder(folder)->entries) {
        entries.push_back({name, node->kind});
    }
    return entries;
}

void FakeDisk::make_folder(const std::string& path) {
    const std::lock_guard lock{mutex_};
    count(path);
    std::string whole;
    for (const std::string& name : names_of(path)) {
        whole += (whole.empty() && path.front() != '/' ? "" : "/") + name;
        const NodePointer there = find(whole);
        if (there != nullptr && there->kind != EntryKind::folder) {
            fail(path, std::errc::not_a_directory);
        }
        if (there != nullptr) continue;
        auto node = std::make_shared<Node>();
        node->kind = EntryKind::folder;
        change(whole, std::move(node));
    }
}

void FakeDisk::rename(const std::string& from, const std::string& to) {
    const std::lock_guard lock{mutex_};
    count(to);
    NodePointer node = find(from);
    if (node == nullptr) fail(from, std::errc::no_such_file_or_directory);
    if (find(to)) fail(to, std::errc::file_exists);
    // Renames within a folder are one change of it; others are not needed here.
    ENSURE(parent_of(from) == parent_of(to));
    const NodePointer folder = find_folder(parent_of(from));
    folder->entries.erase(last_name_of(from));
    folder->entries[last_name_of(to)] = node;
    folder->changes.push_back({last_name_of(from), last_name_of(to), node});
}

void FakeDisk::sync_folder(const std::string& path) {
    const std::lock_guard lock{mutex_};
    count(path);
    const NodePointer folder = find_folder(path);
    folder->synced_entries = folder->entries;
    folder->changes.clear();
}

void FakeDisk::remove_all(const std::string& path) {
    const std::lock_guard lock{mutex_};
    count(path);
    const NodePointer node = find(path);
    if (node == nullptr) return;
    change(path, nullptr);
    used_ = root_->size();
}

}  // namespace rhizome::state
