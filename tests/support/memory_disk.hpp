// Files in memory, for tests that damage every byte, and operations that fail on demand.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "state/file_system.hpp"

namespace rhizome::state {

class MemoryFiles final : public FileSystem {
  public:
    using Bytes = std::vector<std::byte>;

    /// To look at and to change.
    [[nodiscard]] Bytes& content(const std::string& path) { return *files_.at(path); }
    void put(const std::string& path, const Bytes& bytes) {
        files_[path] = std::make_shared<Bytes>(bytes);
    }
    /// From now on so many changes are made, and all after them fail.
    void fail_after(int changes) { changes_left_ = changes; }
    void fail_never() { changes_left_ = std::numeric_limits<int>::max(); }
    [[nodiscard]] int changes() const { return changes_; }

    std::unique_ptr<File> create(const std::string& path) override {
        change(path);
        if (kind_of(path)) throw FileError{path, "is taken"};
        put(path, {});
        return std::make_unique<MemoryFile>(*this, path, files_.at(path));
    }
    std::unique_ptr<File> open(const std::string& path) override {
        if (kind_of(path) != EntryKind::file) throw FileError{path, "no such file"};
        return std::make_unique<MemoryFile>(*this, path, files_.at(path));
    }
    std::optional<EntryKind> kind_of(const std::string& path) override {
        if (files_.contains(path)) return EntryKind::file;
        if (path == "." || path == "/" || folders_.contains(path)) return EntryKind::folder;
        return std::nullopt;
    }
    std::vector<Entry> list(const std::string& folder) override {
        if (kind_of(folder) != EntryKind::folder) throw FileError{folder, "no such folder"};
        std::vector<Entry> entries;
        const auto look = [&](const std::string& path, EntryKind kind) {
            if (path.starts_with(folder + "/") &&
                path.find('/', folder.size() + 1) == std::string::npos) {
                entries.push_back({path.substr(folder.size() + 1), kind});
            }
        };
        for (const auto& [path, bytes] : files_) look(path, EntryKind::file);
        for (const auto& path : folders_) look(path, EntryKind::folder);
        std::sort(entries.begin(), entries.end(),
                  [](const Entry& a, const Entry& b) { return a.name < b.name; });
        return entries;
    }
    void make_folder(const std::string& path) override {
        change(path);
        for (std::size_t i = 0; i <= path.size(); ++i) {
            if (i > 0 && (i == path.size() || path[i] == '/')) folders_.insert(path.substr(0, i));
        }
    }
    void rename(const std::string& from, const std::string& to) override {
        change(to);
        if (kind_of(to)) throw FileError{to, "is taken"};
        if (!kind_of(from)) throw FileError{from, "no such file"};
        const auto renamed = [&](const std::string& path) { return to + path.substr(from.size()); };
        const auto old_files = std::exchange(files_, {});
        for (const auto& [path, bytes] : old_files) {
            files_[is_in(path, from) ? renamed(path) : path] = bytes;
        }
        const auto old_folders = std::exchange(folders_, {});
        for (const auto& path : old_folders) {
            folders_.insert(is_in(path, from) ? renamed(path) : path);
        }
    }
    void sync_folder(const std::string& path) override {
        change(path);
        if (kind_of(path) != EntryKind::folder) throw FileError{path, "no such folder"};
        folder_syncs_.push_back(path);
    }
    void remove_all(const std::string& path) override {
        change(path);
        std::erase_if(files_, [&](const auto& file) { return is_in(file.first, path); });
        std::erase_if(folders_, [&](const auto& folder) { return is_in(folder, path); });
    }

    [[nodiscard]] const std::vector<std::string>& folder_syncs() const { return folder_syncs_; }

  private:
    class MemoryFile final : public File {
      public:
        MemoryFile(MemoryFiles& files, std::string path, std::shared_ptr<Bytes> content)
            : files_{files}, path_{std::move(path)}, content_{std::move(content)} {}
        [[nodiscard]] const std::string& path() const override { return path_; }
        [[nodiscard]] std::int64_t bytes() const override {
            return static_cast<std::int64_t>(content_->size());
        }
        void read_at(std::int64_t offset, std::span<std::byte> to) const override {
            const auto first = static_cast<std::size_t>(offset);
            if (first + to.size() > content_->size()) throw FileError{path_, "ends before"};
            std::copy_n(content_->begin() + offset, to.size(), to.begin());
        }
        void write_at(std::int64_t offset, std::span<const std::byte> from) override {
            files_.change(path_);
            const std::size_t end = static_cast<std::size_t>(offset) + from.size();
            content_->resize(std::max(content_->size(), end));
            std::copy(from.begin(), from.end(), content_->begin() + offset);
        }
        void sync() override { files_.change(path_); }

      private:
        MemoryFiles& files_;
        std::string path_;
        std::shared_ptr<Bytes> content_;
    };

    static bool is_in(const std::string& path, const std::string& folder) {
        return path == folder || path.starts_with(folder + "/");
    }
    void change(const std::string& path) {
        if (changes_left_ == 0) throw FileError{path, "no space left"};
        --changes_left_;
        ++changes_;
    }

    std::map<std::string, std::shared_ptr<Bytes>> files_;
    std::set<std::string> folders_;
    std::vector<std::string> folder_syncs_;
    int changes_left_ = std::numeric_limits<int>::max();
    int changes_ = 0;
};

}  // namespace rhizome::state
