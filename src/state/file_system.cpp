#include "state/file_system.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "core/error.hpp"

namespace rhizome::state {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t bytes_max = std::size_t{1} << 30;  // of one system call

std::error_code last_error() { return {errno, std::generic_category()}; }

[[noreturn]] void fail(const std::string& path, std::error_code code) {
    throw FileError{path, code.message(), code};
}

class HostFile final : public File {
  public:
    HostFile(std::string path, int flags)
        : path_{std::move(path)}, descriptor_{::open(path_.c_str(), flags | O_CLOEXEC, 0666)} {
        if (descriptor_ < 0) fail(path_, last_error());
    }
    ~HostFile() override { ::close(descriptor_); }

    [[nodiscard]] const std::string& path() const override { return path_; }

    [[nodiscard]] std::int64_t bytes() const override {
        struct stat facts{};
        if (::fstat(descriptor_, &facts) != 0) fail(path_, last_error());
        return facts.st_size;
    }

    void read_at(std::int64_t offset, std::span<std::byte> to) const override {
        while (!to.empty()) {
            const auto count =
                ::pread(descriptor_, to.data(), std::min(to.size(), bytes_max), offset);
            if (count < 0 && errno == EINTR) continue;
            if (count < 0) fail(path_, last_error());
            if (count == 0) throw FileError{path_, "ends at byte " + std::to_string(bytes())};
            to = to.subspan(static_cast<std::size_t>(count));
            offset += count;
        }
    }

    void write_at(std::int64_t offset, std::span<const std::byte> from) override {
        while (!from.empty()) {
            const auto count =
                ::pwrite(descriptor_, from.data(), std::min(from.size(), bytes_max), offset);
            if (count < 0 && errno == EINTR) continue;
            if (count < 0) fail(path_, last_error());
            from = from.subspan(static_cast<std::size_t>(count));
            offset += count;
        }
    }

    void sync() override {
        if (::fsync(descriptor_) != 0) fail(path_, last_error());
    }

  private:
    std::string path_;
    int descriptor_;
};

class HostFileSystem final : public FileSystem {
  public:
    std::unique_ptr<File> create(const std::string& path) override {
        return std::make_unique<HostFile>(path, O_RDWR | O_CREAT | O_EXCL);
    }
    // Not blocking: a pipe of that name would never open.
    std::unique_ptr<File> open(const std::string& path) override {
        auto file = std::make_unique<HostFile>(path, O_RDONLY | O_NONBLOCK);
        if (kind_of(path) != EntryKind::file) throw FileError{path, "is no file"};
        return file;
    }
    std::optional<EntryKind> kind_of(const std::string& path) override {
        struct stat facts{};
        if (::stat(path.c_str(), &facts) == 0) {
            if (S_ISREG(facts.st_mode)) return EntryKind::file;
            return S_ISDIR(facts.st_mode) ? EntryKind::folder : EntryKind::other;
        }
        const std::error_code problem = last_error();
        if (problem != std::errc::no_such_file_or_directory &&
            problem != std::errc::not_a_directory) {
            fail(path, problem);
        }
        // A link that leads nowhere takes a name too.
        if (::lstat(path.c_str(), &facts) == 0) return EntryKind::other;
        return std::nullopt;
    }
    std::vector<Entry> list(const std::string& folder) override {
        std::error_code problem;
        std::vector<Entry> entries;
        for (fs::directory_iterator entry{folder, problem}, end; !problem && entry != end;
             entry.increment(problem)) {
            const std::string name = entry->path().filename().string();
            // What was removed while we looked is not listed.
            const auto kind = kind_of(entry->path().string());
            if (kind) entries.push_back({name, *kind});
        }
        if (problem) fail(folder, problem);
        std::sort(entries.begin(), entries.end(),
                  [](const Entry& a, const Entry& b) { return a.name < b.name; });
        return entries;
    }
    void make_folder(const std::string& path) override {
        std::error_code problem;
        fs::create_directories(path, problem);
        if (problem) fail(path, problem);
    }
    void rename(const std::string& from, const std::string& to) override {
        if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0)
            return;
        // Not every file system knows that flag. A folder in use is never replaced anyway: it is
        // not empty.
        if (errno != EINVAL && errno != ENOSYS) fail(to, last_error());
        if (kind_of(to)) fail(to, std::make_error_code(std::errc::file_exists));
        if (::rename(from.c_str(), to.c_str()) != 0) fail(to, last_error());
    }
    void sync_folder(const std::string& path) override {
        const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (descriptor < 0) fail(path, last_error());
        // Some file systems cannot do it, and say so: there it is not needed, or cannot be had.
        const bool ok = ::fsync(descriptor) == 0 || errno == EINVAL || errno == ENOTSUP;
        const std::error_code problem = ok ? std::error_code{} : last_error();
        ::close(descriptor);
        if (problem) fail(path, problem);
    }
    void remove_all(const std::string& path) override {
        std::error_code problem;
        fs::remove_all(path, problem);
        if (problem) fail(path, problem);
    }
};

}  // namespace

FileError::FileError(const std::string& path, const std::string& reason, std::error_code code)
    : std::runtime_error{path + " (" + reason + ")"}, path_{path}, reason_{reason}, code_{code} {}

std::shared_ptr<FileSystem> make_file_system() { return std::make_shared<HostFileSystem>(); }

}  // namespace rhizome::state
