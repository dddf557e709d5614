// A file system in memory, which counts the operations that change something and can refuse one of
// them. There is one folder tree; a folder is there when something in it is, or when it was made.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "state/file_system.hpp"

namespace rhizome::tests {

class MemoryFiles final : public state::FileSystem {
  public:
    using Bytes = std::vector<std::byte>;

    /// The operation of that number, from 0, fails; those after it do as well when `broken`.
    void fail_at(std::int64_t operation, bool broken = false) {
        facts_->fail_at = facts_->operations + operation;
        facts_->broken = broken;
    }
    /// Changing operations so far.
    [[nodiscard]] std::int64_t operations() const { return facts_->operations; }
    /// What the file system was asked to do, in order: "sync a.part".
    [[nodiscard]] const std::vector<std::string>& log() const { return facts_->log; }

    void put(const std::string& path, const std::string& content) {
        const auto* const begin = reinterpret_cast<const std::byte*>(content.data());
        files_[path] = std::make_shared<Bytes>(begin, begin + content.size());
    }
    [[nodiscard]] std::string get(const std::string& path) const {
        const Bytes& bytes = *files_.at(path);
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }
    [[nodiscard]] bool has(const std::string& path) const { return files_.contains(path); }
    [[nodiscard]] std::vector<std::string> names() const {
        std::vector<std::string> all;
        for (const auto& [path, bytes] : files_) all.push_back(path);
        return all;
    }

    std::unique_ptr<state::File> create(const std::string& path) override {
        facts_->change("create", path);
        if (kind_of(path)) throw taken(path);
        files_[path] = std::make_shared<Bytes>();
        return std::make_unique<MemoryFile>(path, files_[path], facts_);
    }
    std::unique_ptr<state::File> open(const std::string& path) override {
        const auto file = files_.find(path);
        if (file == files_.end()) {
            throw state::FileError{path, "is not there",
                                   std::make_error_code(std::errc::no_such_file_or_directory)};
        }
        return std::make_unique<MemoryFile>(path, file->second, facts_);
    }
    std::optional<state::EntryKind> kind_of(const std::string& path) override {
        if (files_.contains(path)) return state::EntryKind::file;
        const auto inside = files_.lower_bound(path + "/");
        const bool has_files = inside != files_.end() && inside->first.starts_with(path + "/");
        if (has_files || folders_.contains(path)) return state::EntryKind::folder;
        return std::nullopt;
    }
    std::vector<state::Entry> list(const std::string& folder) override {
        std::map<std::string, state::EntryKind> entries;
        const auto add = [&](const std::string& path) {
            if (!path.starts_with(folder + "/")) return;
            const std::string name = path.substr(folder.size() + 1);
            const std::string first = name.substr(0, name.find('/'));
            entries.emplace(first, *kind_of(folder + "/" + first));
        };
        for (const auto& [path, bytes] : files_) add(path);
        for (const std::string& path : folders_) add(path);
        std::vector<state::Entry> list;
        for (const auto& [name, kind] : entries) list.push_back({name, kind});
        return list;
    }
    void make_folder(const std::string& path) override {
        facts_->change("make_folder", path);
        folders_.insert(path);
    }
    void rename(const std::string& from, const std::string& to) override {
        facts_->change("rename", from + " " + to);
        if (kind_of(to)) throw taken(to);
        if (files_.contains(from)) {
            auto node = files_.extract(from);
            node.key() = to;
            files_.insert(std::move(node));
            return;
        }
        std::map<std::string, std::shared_ptr<Bytes>> moved;
        for (const auto& [path, bytes] : files_) {
            const bool inside = path.starts_with(from + "/");
            moved.emplace(inside ? to + path.substr(from.size()) : path, bytes);
        }
        files_ = std::move(moved);
        folders_.erase(from);
        folders_.insert(to);
    }
    void sync_folder(const std::string& path) override { facts_->change("sync_folder", path); }
    void remove_all(const std::string& path) override {
        facts_->change("remove_all", path);
        const auto gone = [&](const std::string& name) {
            return name == path || name.starts_with(path + "/");
        };
        std::erase_if(files_, [&](const auto& file) { return gone(file.first); });
        std::erase_if(folders_, gone);
    }

  private:
    struct Facts {
        std::int64_t operations = 0;
        std::optional<std::int64_t> fail_at;
        bool broken = false;
        std::vector<std::string> log;

        void change(const std::string& what, const std::string& path) {
            log.push_back(what + " " + path);
            const std::int64_t number = operations++;
            if (fail_at && (number == *fail_at || (broken && number > *fail_at))) {
                throw state::FileError{path, "was told to fail",
                                       std::make_error_code(std::errc::io_error)};
            }
        }
    };

    class MemoryFile final : public state::File {
      public:
        MemoryFile(std::string path, std::shared_ptr<Bytes> bytes, std::shared_ptr<Facts> facts)
            : path_{std::move(path)}, bytes_{std::move(bytes)}, facts_{std::move(facts)} {}

        [[nodiscard]] const std::string& path() const override { return path_; }
        [[nodiscard]] std::int64_t bytes() const override {
            return static_cast<std::int64_t>(bytes_->size());
        }
        void read_at(std::int64_t offset, std::span<std::byte> to) const override {
            const auto first = static_cast<std::size_t>(offset);
            if (offset < 0 || first > bytes_->size() || to.size() > bytes_->size() - first) {
                throw state::FileError{path_, "ends at byte " + std::to_string(bytes_->size())};
            }
            if (!to.empty()) std::memcpy(to.data(), bytes_->data() + first, to.size());
        }
        void write_at(std::int64_t offset, std::span<const std::byte> from) override {
            facts_->change("write_at", path_);
            const auto first = static_cast<std::size_t>(offset);
            bytes_->resize(std::max(bytes_->size(), first + from.size()));
            if (!from.empty()) std::memcpy(bytes_->data() + first, from.data(), from.size());
        }
        void sync() override { facts_->change("sync", path_); }

      private:
        std::string path_;
        std::shared_ptr<Bytes> bytes_;
        std::shared_ptr<Facts> facts_;
    };

    static state::FileError taken(const std::string& path) {
        return {path, "is taken", std::make_error_code(std::errc::file_exists)};
    }

    std::shared_ptr<Facts> facts_ = std::make_shared<Facts>();
    std::map<std::string, std::shared_ptr<Bytes>> files_;
    std::set<std::string> folders_;
};

}  // namespace rhizome::tests
