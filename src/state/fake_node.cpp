#include "state/fake_node.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "core/error.hpp"

namespace rhizome::state {
namespace {

void grow(FakeNode::Bytes& bytes, std::size_t size) { bytes.resize(std::max(bytes.size(), size)); }

void put(FakeNode::Bytes& to, std::size_t offset, std::span<const std::byte> from) {
    if (from.empty()) return;  // grows nothing
    grow(to, offset + from.size());
    std::copy(from.begin(), from.end(), to.begin() + static_cast<std::ptrdiff_t>(offset));
}

/// Happens so many times in four. Drawn anew for each node, so that all and nothing occur as well,
/// however much there is to lose.
class Chance {
  public:
    explicit Chance(std::mt19937_64& random) : random_{random}, quarters_{random() % 5} {}
    [[nodiscard]] bool happens() { return random_() % 4 < quarters_; }

  private:
    std::mt19937_64& random_;
    std::uint64_t quarters_;
};

}  // namespace

FakeNode::Pointer FakeNode::entry(const std::string& name) const {
    const auto found = entries_.find(name);
    return found == entries_.end() ? nullptr : found->second;
}

std::int64_t FakeNode::size() const {
    auto size = static_cast<std::int64_t>(bytes_.size());
    for (const auto& [name, node] : entries_) size += node->size();
    return size;
}

void FakeNode::add_paths_of_files(const std::string& path, std::vector<std::string>& paths) const {
    if (!is_folder()) paths.push_back(path);
    const std::string begin = path.empty() ? path : path + "/";
    for (const auto& [name, node] : entries_) node->add_paths_of_files(begin + name, paths);
}

void FakeNode::write(std::int64_t offset, std::span<const std::byte> from) {
    if (from.empty()) return;
    const auto at = static_cast<std::size_t>(offset);
    put(bytes_, at, from);
    writes_.push_back({at, Bytes(from.begin(), from.end())});
}

void FakeNode::add(const std::string& name, Pointer node) {
    ENSURE(is_folder() && node != nullptr);
    entries_[name] = node;
    changes_.push_back({"", name, std::move(node)});
}

void FakeNode::remove(const std::string& name) {
    entries_.erase(name);
    changes_.push_back({name, "", nullptr});
}

void FakeNode::rename(const std::string& from, const std::string& to) {
    const Pointer node = entry(from);
    ENSURE(node != nullptr);
    entries_.erase(from);
    entries_[to] = node;
    changes_.push_back({from, to, node});
}

void FakeNode::sync() {
    lasting_bytes_ = bytes_;
    writes_.clear();
    lasting_entries_ = entries_;
    changes_.clear();
}

void FakeNode::set_bytes(Bytes bytes) {
    ENSURE(!is_folder());
    bytes_ = std::move(bytes);
    lasting_bytes_ = bytes_;
    writes_.clear();
}

FakeNode::Pointer FakeNode::as_it_is() const {
    auto copy = std::make_shared<FakeNode>(kind_);
    copy->bytes_ = bytes_;
    for (const auto& [name, node] : entries_) copy->entries_[name] = node->as_it_is();
    copy->sync();
    return copy;
}

FakeNode::Pointer FakeNode::after_power_loss(std::mt19937_64& random) const {
    auto copy = std::make_shared<FakeNode>(kind_);
    copy->bytes_ = bytes_left(random);
    for (const auto& [name, node] : entries_left(random)) {
        copy->entries_[name] = node->after_power_loss(random);
    }
    copy->sync();
    return copy;
}

FakeNode::Bytes FakeNode::bytes_left(std::mt19937_64& random) const {
    Bytes left = lasting_bytes_;
    Chance whole{random};
    Chance partly{random};
    for (const Write& write : writes_) {
        if (whole.happens()) {
            put(left, write.offset, write.bytes);
        } else if (partly.happens()) {
            const std::size_t count = random() % (write.bytes.size() + 1);
            put(left, write.offset, std::span{write.bytes}.first(count));
            // The file's new size may have come through without the bytes.
            if (random() % 2 == 0) grow(left, write.offset + write.bytes.size());
        }
    }
    return left;
}

FakeNode::Entries FakeNode::entries_left(std::mt19937_64& random) const {
    Entries left = lasting_entries_;
    Chance kept{random};
    std::set<std::string> lost;  // names whose changes did not come through, nor do later ones
    for (const Change& change : changes_) {
        if (lost.contains(change.removed) || lost.contains(change.added) || !kept.happens()) {
            if (!change.removed.empty()) lost.insert(change.removed);
            if (!change.added.empty()) lost.insert(change.added);
            continue;
        }
        left.erase(change.removed);
        if (change.node != nullptr) left[change.added] = change.node;
    }
    return left;
}

}  // namespace rhizome::state
