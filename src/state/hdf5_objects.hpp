// Groups, attributes and datasets of HDF5 in the few forms that a state's files have. Whoever reads
// gets exactly what the format says, or an Hdf5Error: no other type, layout, filter or kind of
// link.
//
// Private to this room.
#pragma once

#include <string_view>

#include "core/shape.hpp"
#include "state/hdf5_file.hpp"

namespace rhizome::state {

/// Of numbers in a file: little endian, as they are in memory.
[[nodiscard]] hid_t file_type(DType type);
/// "f32", "f64"
[[nodiscard]] std::string_view dtype_name(DType type);
/// Text of so many bytes, filled up with zeros.
[[nodiscard]] Handle make_text_type(std::size_t bytes);

// Groups. Every link is a hard one: nothing here follows one out of its file.

[[nodiscard]] Handle create_group(hid_t where, const std::string& name);
[[nodiscard]] Handle open_group(hid_t where, const std::string& name);
[[nodiscard]] std::int64_t links_in(hid_t group);
[[nodiscard]] bool has_link(hid_t group, const std::string& name);
[[nodiscard]] std::vector<std::string> link_names(hid_t group);

// Attributes.

void write_number(hid_t object, const std::string& name, std::int32_t value);
void write_number(hid_t object, const std::string& name, std::int64_t value);
void write_numbers(hid_t object, const std::string& name, std::span<const std::int64_t> values);
void write_words(hid_t object, const std::string& name, std::string_view text);
[[nodiscard]] std::int32_t read_int32(hid_t object, const std::string& name);
[[nodiscard]] std::int64_t read_int64(hid_t object, const std::string& name);
/// At most `count_max` of them, at least one.
[[nodiscard]] std::vector<std::int64_t> read_numbers(hid_t object, const std::string& name,
                                                     std::size_t count_max);
[[nodiscard]] std::string read_words(hid_t object, const std::string& name);

// Datasets within the structure.

using Extents = std::vector<hsize_t>;

void write_table(hid_t group, const std::string& name, hid_t type, const Extents& extents,
                 std::span<const std::byte> bytes);
/// Lies in `file.structure()`.
[[nodiscard]] std::span<const std::byte> read_table(const Hdf5File& file, hid_t group,
                                                    const std::string& name, hid_t type,
                                                    const Extents& extents);
/// Elements of a table in one dimension.
[[nodiscard]] hsize_t read_length(hid_t group, const std::string& name);
void write_text(hid_t group, const std::string& name, std::string_view text);
[[nodiscard]] std::string read_text(const Hdf5File& file, hid_t group, const std::string& name);

// Datasets of values: one dimension, and no bytes of theirs go through HDF5.

[[nodiscard]] Handle create_values(hid_t group, const std::string& name, hid_t type,
                                   hsize_t elements);
/// Gives it a place at the end of the file, which is returned.
[[nodiscard]] std::int64_t place_values(const Handle& values);
/// Where they are.
[[nodiscard]] std::int64_t find_values(hid_t group, const std::string& name, hid_t type,
                                       hsize_t elements);

/// A tensor in one piece, put together from other files.
class VirtualTensor {
  public:
    VirtualTensor(const Shape& shape, DType type);
    /// `count` elements from `first` on are those from `first_there` on of a dataset of `elements`.
    void add_run(std::int64_t first, std::int64_t count, const std::string& file,
                 const std::string& dataset, std::int64_t elements, std::int64_t first_there);
    void create(hid_t group, const std::string& name) const;

  private:
    Shape shape_;
    DType type_;
    Handle space_;
    Handle properties_;
};

}  // namespace rhizome::state
