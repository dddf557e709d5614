#include "state/fake_disk.hpp"

#include <algorithm>
#include <limits>
#include <random>

#include "core/error.hpp"
#include "state/fake_node.hpp"

namespace rhizome::state {
namespace {

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

bool needs_writing(FileOperation kind) {
    switch (kind) {
        case FileOperation::create:
        case FileOperation::write_at:
        case FileOperation::sync:
        case FileOperation::make_folder:
        case FileOperation::rename:
        case FileOperation::sync_folder:
        case FileOperation::remove_all:
            return true;
        case FileOperation::open:
        case FileOperation::bytes:
        case FileOperation::read_at:
        case FileOperation::kind_of:
        case FileOperation::list:
            return false;
    }
    return false;
}

/// The first half of the entries, and of what is in them.
void remove_half(FakeNode& node) {
    const FakeNode::Entries entries = node.entries();
    std::size_t left = entries.size() / 2;
    for (const auto& [name, child] : entries) {
        if (left-- == 0) break;
        remove_half(*child);
        if (child->entries().empty()) node.remove(name);
    }
}

void remove_entries(FakeNode& node) {
    const FakeNode::Entries entries = node.entries();
    for (const auto& [name, child] : entries) {
        remove_entries(*child);
        node.remove(name);
    }
}

}  // namespace

/// Why an operation fails.
struct FakeDisk::Trouble {
    std::errc reason;
    bool half_done;
};

struct FakeDisk::Place {
    NodePointer folder;
    std::string name;
};

class FakeDisk::OpenFile final : public File {
  public:
    OpenFile(FakeDisk& disk, std::string path, NodePointer node, bool writable)
        : disk_{disk}, path_{std::move(path)}, node_{std::move(node)}, writable_{writable} {}

    [[nodiscard]] const std::string& path() const override { return path_; }

    [[nodiscard]] std::int64_t bytes() const override {
        const std::scoped_lock lock{disk_.mutex_};
        disk_.count_or_fail(FileOperation::bytes, path_);
        return node_->size();
    }

    void read_at(std::int64_t offset, std::span<std::byte> to) const override {
        const std::scoped_lock lock{disk_.mutex_};
        disk_.count_or_fail(FileOperation::read_at, path_);
        if (to.empty()) return;
        if (offset < 0) fail(path_, std::errc::invalid_argument);
        const auto begin = static_cast<std::size_t>(offset);
        const std::size_t size = node_->bytes().size();
        if (begin > size || to.size() > size - begin) {
            throw FileError{path_, "ends at byte " + std::to_string(size)};
        }
        std::copy_n(node_->bytes().begin() + offset, to.size(), to.begin());
    }

    void write_at(std::int64_t offset, std::span<const std::byte> from) override {
        const std::scoped_lock lock{disk_.mutex_};
        const auto trouble = disk_.count(FileOperation::write_at);
        if (trouble && !trouble->half_done) fail(path_, trouble->reason);
        if (!writable_) fail(path_, std::errc::bad_file_descriptor);
        if (offset < 0) fail(path_, std::errc::invalid_argument);
        const std::size_t wanted = trouble ? from.size() / 2 : from.size();
        const std::size_t count = std::min(wanted, disk_.room_at(*node_, offset));
        const std::int64_t before = node_->size();
        node_->write(offset, from.first(count));
        disk_.used_ += node_->size() - before;
        if (count < wanted) {
            disk_.fired_ = true;
            fail(path_, std::errc::no_space_on_device);
        }
        if (trouble) fail(path_, trouble->reason);
    }

    void sync() override {
        const std::scoped_lock lock{disk_.mutex_};
        disk_.count_or_fail(FileOperation::sync, path_);
        node_->sync();
    }

  private:
    FakeDisk& disk_;
    std::string path_;
    NodePointer node_;
    bool writable_;
};

FakeDisk::FakeDisk() : root_{std::make_shared<FakeNode>(EntryKind::folder)} {}

FakeDisk::~FakeDisk() = default;

void FakeDisk::fail_operation(std::int64_t number, std::errc reason) {
    const std::scoped_lock lock{mutex_};
    failures_[number] = reason;
}

void FakeDisk::fail_operation(FileOperation kind, std::int64_t number, std::errc reason) {
    const std::scoped_lock lock{mutex_};
    failures_of_[{kind, number}] = reason;
}

void FakeDisk::stop_at(std::int64_t number) {
    const std::scoped_lock lock{mutex_};
    stop_at_ = number;
}

void FakeDisk::read_only_from(std::int64_t number) {
    const std::scoped_lock lock{mutex_};
    read_only_from_ = number;
}

void FakeDisk::set_capacity(std::int64_t bytes) {
    const std::scoped_lock lock{mutex_};
    capacity_ = bytes;
}

bool FakeDisk::fired() const {
    const std::scoped_lock lock{mutex_};
    return fired_;
}

std::int64_t FakeDisk::operations() const {
    const std::scoped_lock lock{mutex_};
    return operations_;
}

std::int64_t FakeDisk::operations(FileOperation kind) const {
    const std::scoped_lock lock{mutex_};
    return operations_of_.at(static_cast<std::size_t>(kind));
}

std::int64_t FakeDisk::bytes_used() const {
    const std::scoped_lock lock{mutex_};
    return used_;
}

std::shared_ptr<FakeDisk> FakeDisk::after_kill() const {
    const std::scoped_lock lock{mutex_};
    auto disk = std::make_shared<FakeDisk>();
    disk->root_ = root_->as_it_is();
    disk->used_ = disk->root_->size();
    return disk;
}

std::shared_ptr<FakeDisk> FakeDisk::after_power_loss(std::uint64_t seed) const {
    const std::scoped_lock lock{mutex_};
    std::mt19937_64 random{seed};
    auto disk = std::make_shared<FakeDisk>();
    disk->root_ = root_->after_power_loss(random);
    disk->used_ = disk->root_->size();
    return disk;
}

std::vector<std::byte> FakeDisk::content(const std::string& path) const {
    const std::scoped_lock lock{mutex_};
    const NodePointer node = find(path);
    ENSURE(node != nullptr && node->kind() == EntryKind::file);
    return node->bytes();
}

void FakeDisk::set_content(const std::string& path, std::vector<std::byte> bytes) {
    const std::scoped_lock lock{mutex_};
    const std::vector<std::string> names = names_of(path);
    NodePointer at = root_;
    for (std::size_t i = 0; i < names.size(); ++i) {
        NodePointer next = at->entry(names[i]);
        if (next == nullptr) {
            const bool last = i + 1 == names.size();
            next = std::make_shared<FakeNode>(last ? EntryKind::file : EntryKind::folder);
            at->add(names[i], next);
            at->sync();
        }
        at = next;
    }
    at->set_bytes(std::move(bytes));
    used_ = root_->size();
}

std::vector<std::string> FakeDisk::files() const {
    const std::scoped_lock lock{mutex_};
    std::vector<std::string> files;
    root_->add_paths_of_files("", files);
    return files;
}

/// Of every operation, first thing: what keeps it from happening.
std::optional<FakeDisk::Trouble> FakeDisk::count(FileOperation kind) {
    const std::int64_t number = operations_++;
    const std::int64_t number_of_kind = operations_of_.at(static_cast<std::size_t>(kind))++;
    const auto failure = failures_.find(number);
    const auto failure_of = failures_of_.find({kind, number_of_kind});
    std::optional<Trouble> trouble;
    if (number >= stop_at_) {
        trouble = Trouble{std::errc::io_error, number == stop_at_};
    } else if (number >= read_only_from_ && needs_writing(kind)) {
        trouble = Trouble{std::errc::read_only_file_system, false};
    } else if (failure != failures_.end()) {
        trouble = Trouble{failure->second, true};
    } else if (failure_of != failures_of_.end()) {
        trouble = Trouble{failure_of->second, true};
    }
    if (trouble) fired_ = true;
    return trouble;
}

/// For operations that are done or not.
void FakeDisk::count_or_fail(FileOperation kind, const std::string& path) {
    if (const auto trouble = count(kind)) fail(path, trouble->reason);
}

/// How many bytes may be written there.
std::size_t FakeDisk::room_at(const FakeNode& file, std::int64_t offset) const {
    // Without an overflow where there is no limit.
    const std::int64_t room = std::max<std::int64_t>(0, capacity_ - used_);
    const std::int64_t end = file.size() + std::min(room, never - file.size());
    return static_cast<std::size_t>(std::max<std::int64_t>(0, end - offset));
}

/// Null where there is nothing.
FakeDisk::NodePointer FakeDisk::find(const std::string& path) const {
    NodePointer at = root_;
    for (const std::string& name : names_of(path)) {
        ENSURE(name != "..");
        at = at->entry(name);
        if (at == nullptr) return nullptr;
    }
    return at;
}

FakeDisk::NodePointer FakeDisk::find_folder(const std::string& path) const {
    NodePointer at = root_;
    for (const std::string& name : names_of(path)) {
        at = at->entry(name);
        if (at == nullptr) fail(path, std::errc::no_such_file_or_directory);
        if (!at->is_folder()) fail(path, std::errc::not_a_directory);
    }
    return at;
}

/// The folder is there, the name need not be.
FakeDisk::Place FakeDisk::place_of(const std::string& path) const {
    const std::vector<std::string> names = names_of(path);
    ENSURE(!names.empty());
    return {find_folder(path.substr(0, path.rfind(names.back()))), names.back()};
}

std::unique_ptr<File> FakeDisk::create(const std::string& path) {
    const std::scoped_lock lock{mutex_};
    count_or_fail(FileOperation::create, path);
    if (find(path)) fail(path, std::errc::file_exists);
    const Place place = place_of(path);
    auto node = std::make_shared<FakeNode>(EntryKind::file);
    place.folder->add(place.name, node);
    return std::make_unique<OpenFile>(*this, path, std::move(node), true);
}

std::unique_ptr<File> FakeDisk::open(const std::string& path) {
    const std::scoped_lock lock{mutex_};
    count_or_fail(FileOperation::open, path);
    NodePointer node = find(path);
    if (node == nullptr) fail(path, std::errc::no_such_file_or_directory);
    if (node->is_folder()) throw FileError{path, "is no file"};
    return std::make_unique<OpenFile>(*this, path, std::move(node), false);
}

std::optional<EntryKind> FakeDisk::kind_of(const std::string& path) {
    const std::scoped_lock lock{mutex_};
    count_or_fail(FileOperation::kind_of, path);
    const NodePointer node = find(path);
    return node ? std::optional{node->kind()} : std::nullopt;
}

std::vector<Entry> FakeDisk::list(const std::string& folder) {
    const std::scoped_lock lock{mutex_};
    count_or_fail(FileOperation::list, folder);
    std::vector<Entry> entries;
    for (const auto& [name, node] : find_folder(folder)->entries()) {
        entries.push_back({name, node->kind()});
    }
    return entries;
}

void FakeDisk::make_folder(const std::string& path) {
    const std::scoped_lock lock{mutex_};
    count_or_fail(FileOperation::make_folder, path);
    NodePointer at = root_;
    for (const std::string& name : names_of(path)) {
        NodePointer next = at->entry(name);
        if (next == nullptr) {
            next = std::make_shared<FakeNode>(EntryKind::folder);
            at->add(name, next);
        }
        if (!next->is_folder()) fail(path, std::errc::not_a_directory);
        at = next;
    }
}

void FakeDisk::rename(const std::string& from, const std::string& to) {
    const std::scoped_lock lock{mutex_};
    count_or_fail(FileOperation::rename, to);
    if (!find(from)) fail(to, std::errc::no_such_file_or_directory);
    if (find(to)) fail(to, std::errc::file_exists);
    const Place old_place = place_of(from);
    const Place new_place = place_of(to);
    // Renames within a folder are one change of it; others are not needed here.
    ENSURE(old_place.folder == new_place.folder);
    old_place.folder->rename(old_place.name, new_place.name);
}

void FakeDisk::sync_folder(const std::string& path) {
    const std::scoped_lock lock{mutex_};
    count_or_fail(FileOperation::sync_folder, path);
    find_folder(path)->sync();
}

void FakeDisk::remove_all(const std::string& path) {
    const std::scoped_lock lock{mutex_};
    const auto trouble = count(FileOperation::remove_all);
    const NodePointer node = find(path);
    if (trouble && node != nullptr && trouble->half_done) remove_half(*node);
    if (!trouble && node != nullptr) {
        remove_entries(*node);
        const Place place = place_of(path);
        place.folder->remove(place.name);
    }
    used_ = root_->size();
    if (trouble) fail(path, trouble->reason);
}

}  // namespace rhizome::state
