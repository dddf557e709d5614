// A whole state in one safetensors file, under our own names and in our own layout: values as
// "parameter/block.3/attention.weight", "first_moment/...", "second_moment/...", and all that a
// state says of itself in the metadata. Only who wrote which chunk is lost.
//
//   rhizome.raw                        1, the version of this form
//   rhizome.tensors                    names, a line each, in their order
//   rhizome.ties                       "use = owner", a line each
//   rhizome.chunk_elements, rhizome.steps, rhizome.mathematics, ...: the fields of StateFacts
#pragma once

#include <map>
#include <string>

#include "state/safetensors.hpp"
#include "state/state_folder.hpp"

namespace rhizome::state {

/// What a state says of itself, as metadata of a file: rhizome.steps, rhizome.history, ...
[[nodiscard]] std::map<std::string, std::string> metadata_of(const StateFacts& facts);

/// Its mathematics among the metadata of any file.
inline constexpr const char* mathematics_key = "rhizome.mathematics";

/// Throws StateError, FileError, also where the name is taken.
void export_raw(FileSystem& files, const std::string& path, StateReader& state);

/// Is it meant to be such a file?
[[nodiscard]] bool is_raw(const std::map<std::string, std::string>& metadata);

class RawFile {
  public:
    /// Checks that it is a state's, whole but for the values. Throws SafetensorsError, FileError.
    RawFile(FileSystem& files, const std::string& path);

    [[nodiscard]] const StateFacts& facts() const { return facts_; }
    [[nodiscard]] const StoredTable& table() const { return table_; }
    /// All elements of a tensor, into exactly so many bytes. Throws FileError.
    void read(std::int32_t tensor, Value value, std::span<std::byte> to) const;

  private:
    [[noreturn]] void fail(const std::string& reason) const;
    [[nodiscard]] const std::string& text(const std::string& key) const;
    [[nodiscard]] std::int64_t number(const std::string& key, std::int64_t largest) const;
    void read_facts();
    void read_table();
    [[nodiscard]] const SafetensorsTensor& stored(const std::string& tensor, Value value) const;

    SafetensorsReader reader_;
    StateFacts facts_{};
    StoredTable table_{};
};

}  // namespace rhizome::state
