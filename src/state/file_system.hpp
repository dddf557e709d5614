// Files as this room sees them: few operations, and each can fail. Behind an interface, so that
// tests and simulated runs have a disk that fills up, breaks or loses its power at any operation.
//
// Trouble is a FileError. Whoever writes catches it: a save that failed is reported, and the run
// goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace rhizome::state {

/// "PATH (what the system says)". `path` of a file within an open one is its own.
class FileError : public std::runtime_error {
  public:
    FileError(const std::string& path, const std::string& reason, std::error_code code = {});

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] const std::string& reason() const { return reason_; }
    /// Of the system; empty where it is not the system that complains.
    [[nodiscard]] std::error_code code() const { return code_; }

  private:
    std::string path_;
    std::string reason_;
    std::error_code code_;
};

/// An open file. The destructor closes it and reports nothing: who has written and must know calls
/// sync().
class File {
  public:
    virtual ~File() = default;
    File() = default;
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    [[nodiscard]] virtual const std::string& path() const = 0;
    [[nodiscard]] virtual std::int64_t bytes() const = 0;
    /// All of `to`; FileError where the file ends before.
    virtual void read_at(std::int64_t offset, std::span<std::byte> to) const = 0;
    /// All of `from`; the file grows if need be, with zeros up to `offset`.
    virtual void write_at(std::int64_t offset, std::span<const std::byte> from) = 0;
    /// After it the bytes outlive a loss of power, if the folder's entry does (sync_folder).
    virtual void sync() = 0;
};

enum class EntryKind : std::uint8_t { file, folder, other };

struct Entry {
    std::string name;
    EntryKind kind;
    friend bool operator==(const Entry&, const Entry&) = default;
};

class FileSystem {
  public:
    virtual ~FileSystem() = default;
    FileSystem() = default;
    FileSystem(const FileSystem&) = delete;
    FileSystem& operator=(const FileSystem&) = delete;

    /// A new file, for writing and reading; FileError if the name is taken. Its mode follows umask.
    [[nodiscard]] virtual std::unique_ptr<File> create(const std::string& path) = 0;
    /// An existing file, for reading.
    [[nodiscard]] virtual std::unique_ptr<File> open(const std::string& path) = 0;
    /// Nothing if there is none of that name.
    [[nodiscard]] virtual std::optional<EntryKind> kind_of(const std::string& path) = 0;
    /// By name.
    [[nodiscard]] virtual std::vector<Entry> list(const std::string& folder) = 0;
    /// Also those above it; fine if it is there already.
    virtual void make_folder(const std::string& path) = 0;
    /// A file or a folder; FileError if `to` is taken.
    virtual void rename(const std::string& from, const std::string& to) = 0;
    /// After it the entries of this folder outlive a loss of power.
    virtual void sync_folder(const std::string& path) = 0;
    /// A file, or a folder with all that is in it; fine if there is none.
    virtual void remove_all(const std::string& path) = 0;
};

/// This host's.
[[nodiscard]] std::shared_ptr<FileSystem> make_file_system();

}  // namespace rhizome::state
