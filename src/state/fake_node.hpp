// A file or a folder of a FakeDisk, which explains what a loss of power leaves of it.
//
// A node remembers what is lasting (as of the last sync) and what was done since then, in order.
// `bytes` and `entries` are what everybody sees meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "state/file_system.hpp"

namespace rhizome::state {

class FakeNode {
  public:
    using Pointer = std::shared_ptr<FakeNode>;
    using Entries = std::map<std::string, Pointer>;
    using Bytes = std::vector<std::byte>;

    explicit FakeNode(EntryKind kind) : kind_{kind} {}

    [[nodiscard]] EntryKind kind() const { return kind_; }
    [[nodiscard]] bool is_folder() const { return kind_ == EntryKind::folder; }
    [[nodiscard]] const Bytes& bytes() const { return bytes_; }
    [[nodiscard]] const Entries& entries() const { return entries_; }
    /// Null if there is none.
    [[nodiscard]] Pointer entry(const std::string& name) const;
    /// Of all files in it.
    [[nodiscard]] std::int64_t size() const;
    void add_paths_of_files(const std::string& path, std::vector<std::string>& paths) const;

    void write(std::int64_t offset, std::span<const std::byte> from);
    void add(const std::string& name, Pointer node);
    void remove(const std::string& name);
    void rename(const std::string& from, const std::string& to);
    /// All bytes of a file, or all entries of a folder, last from now on.
    void sync();

    /// These are its lasting bytes, as if they had always been there.
    void set_bytes(Bytes bytes);

    /// A copy, all of it lasting.
    [[nodiscard]] Pointer as_it_is() const;
    [[nodiscard]] Pointer after_power_loss(std::mt19937_64& random) const;

  private:
    struct Write {
        std::size_t offset;
        Bytes bytes;
    };
    /// A name leads nowhere, a name leads somewhere, or, in one, both: a rename.
    struct Change {
        std::string removed;
        std::string added;
        Pointer node;  // of `added`
    };

    [[nodiscard]] Bytes bytes_left(std::mt19937_64& random) const;
    [[nodiscard]] Entries entries_left(std::mt19937_64& random) const;

    EntryKind kind_;
    Bytes bytes_;
    Bytes lasting_bytes_;
    std::vector<Write> writes_;
    Entries entries_;
    Entries lasting_entries_;
    std::vector<Change> changes_;
};

}  // namespace rhizome::state
