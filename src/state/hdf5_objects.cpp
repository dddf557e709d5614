#include "state/hdf5_objects.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "core/error.hpp"

namespace rhizome::state {
namespace {

static_assert(std::endian::native == std::endian::little, "files have the bytes of memory");

constexpr std::size_t words_bytes_max = std::size_t{1} << 16;  // of an attribute

Handle make_space(const Extents& extents) {
    return {H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), H5Sclose,
            "a space"};
}

Handle make_scalar() { return {H5Screate(H5S_SCALAR), H5Sclose, "a space"}; }

/// HDF5 knows no text of no bytes; and zeros fill it up, so it cannot have any.
Handle type_for(std::string_view text) {
    ENSURE(text.find('\0') == std::string_view::npos);
    return make_text_type(std::max<std::size_t>(text.size(), 1));
}

/// Its bytes.
std::size_t check_text_type(hid_t type, const std::string& name) {
    const std::size_t bytes = H5Tget_size(type);
    const bool ok = H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0 &&
                    H5Tget_strpad(type) == H5T_STR_NULLPAD && H5Tget_cset(type) == H5T_CSET_UTF8;
    if (!ok || bytes == 0) throw Hdf5Error{name + " is no text of a fixed size"};
    return bytes;
}

std::string without_padding(std::string text) {
    text.resize(text.find_last_not_of('\0') + 1);
    return text;
}

Handle make_creation(H5D_alloc_time_t when) {
    Handle creation{H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "properties"};
    check_done(H5Pset_layout(creation.id(), H5D_CONTIGUOUS), "one piece");
    check_done(H5Pset_alloc_time(creation.id(), when), "its time");
    check_done(H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER), "no filling");
    check_done(H5Pset_obj_track_times(creation.id(), 0), "no times");
    return creation;
}

Extents extents_of(hid_t space, const std::string& name) {
    if (H5Sget_simple_extent_type(space) != H5S_SIMPLE) throw Hdf5Error{name + " has no extents"};
    const int dimensions = H5Sget_simple_extent_ndims(space);
    if (dimensions < 1) throw Hdf5Error{name + " has no extents"};
    Extents extents(static_cast<std::size_t>(dimensions));
    Extents most(extents.size());
    if (H5Sget_simple_extent_dims(space, extents.data(), most.data()) < 0 || extents != most) {
        throw Hdf5Error{name + " may grow"};
    }
    return extents;
}

/// Opened, and in one piece of plain bytes in this file.
Handle open_dataset(hid_t group, const std::string& name) {
    if (!has_link(group, name)) throw Hdf5Error{"there is no dataset " + name};
    Handle dataset{H5Dopen2(group, name.c_str(), H5P_DEFAULT), H5Dclose, "dataset " + name};
    const Handle creation{H5Dget_create_plist(dataset.id()), H5Pclose, "properties of " + name};
    if (H5Pget_layout(creation.id()) != H5D_CONTIGUOUS ||
        H5Pget_external_count(creation.id()) != 0 || H5Pget_nfilters(creation.id()) != 0) {
        throw Hdf5Error{name + " is not in one piece"};
    }
    return dataset;
}

Handle open_dataset(hid_t group, const std::string& name, hid_t type, const Extents& extents) {
    Handle dataset = open_dataset(group, name);
    const Handle found{H5Dget_type(dataset.id()), H5Tclose, "type of " + name};
    if (H5Tequal(found.id(), type) <= 0) throw Hdf5Error{name + " has another type"};
    const Handle space{H5Dget_space(dataset.id()), H5Sclose, "space of " + name};
    if (extents_of(space.id(), name) != extents) throw Hdf5Error{name + " has other extents"};
    return dataset;
}

std::int64_t offset_of(const Handle& dataset, const std::string& name) {
    const haddr_t offset = H5Dget_offset(dataset.id());
    if (offset == HADDR_UNDEF || offset > INT64_MAX) throw Hdf5Error{name + " has no place"};
    return static_cast<std::int64_t>(offset);
}

std::span<const std::byte> bytes_of(const Hdf5File& file, const Handle& dataset, std::size_t bytes,
                                    const std::string& name) {
    const auto offset = static_cast<std::size_t>(offset_of(dataset, name));
    const std::span<const std::byte> all = file.structure();
    if (offset > all.size() || bytes > all.size() - offset) {
        throw Hdf5Error{name + " is not in the structure"};
    }
    return all.subspan(offset, bytes);
}

void write_attribute(hid_t object, const std::string& name, hid_t type, const Handle& space,
                     const void* value) {
    const Handle attribute{
        H5Acreate2(object, name.c_str(), type, space.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
        "attribute " + name};
    check_done(H5Awrite(attribute.id(), type, value), "to write " + name);
}

Handle open_attribute(hid_t object, const std::string& name) {
    return {H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose, "attribute " + name};
}

void check_type(const Handle& attribute, hid_t type, const std::string& name) {
    const Handle found{H5Aget_type(attribute.id()), H5Tclose, "type of " + name};
    if (H5Tequal(found.id(), type) <= 0) throw Hdf5Error{name + " has another type"};
}

void check_scalar(const Handle& attribute, const std::string& name) {
    const Handle space{H5Aget_space(attribute.id()), H5Sclose, "space of " + name};
    if (H5Sget_simple_extent_type(space.id()) != H5S_SCALAR) {
        throw Hdf5Error{name + " is more than one"};
    }
}

template <class T>
T read_scalar(hid_t object, const std::string& name, hid_t type) {
    const Handle attribute = open_attribute(object, name);
    check_type(attribute, type, name);
    check_scalar(attribute, name);
    T value{};
    check_done(H5Aread(attribute.id(), type, &value), "to read " + name);
    return value;
}

}  // namespace

hid_t file_type(DType type) {
    ENSURE(type != DType::i32);
    return type == DType::f64 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE;
}

std::string_view dtype_name(DType type) {
    ENSURE(type != DType::i32);
    return type == DType::f64 ? "f64" : "f32";
}

Handle make_text_type(std::size_t bytes) {
    Handle type{H5Tcopy(H5T_C_S1), H5Tclose, "text"};
    check_done(H5Tset_size(type.id(), bytes), "its size");
    check_done(H5Tset_strpad(type.id(), H5T_STR_NULLPAD), "its end");
    check_done(H5Tset_cset(type.id(), H5T_CSET_UTF8), "UTF-8");
    return type;
}

Handle create_group(hid_t where, const std::string& name) {
    const Handle creation{H5Pcreate(H5P_GROUP_CREATE), H5Pclose, "properties"};
    check_done(H5Pset_obj_track_times(creation.id(), 0), "no times");
    return {H5Gcreate2(where, name.c_str(), H5P_DEFAULT, creation.id(), H5P_DEFAULT), H5Gclose,
            "group " + name};
}

Handle open_group(hid_t where, const std::string& name) {
    if (!has_link(where, name)) throw Hdf5Error{"there is no group " + name};
    return {H5Gopen2(where, name.c_str(), H5P_DEFAULT), H5Gclose, "group " + name};
}

std::int64_t links_in(hid_t group) {
    H5G_info_t facts{};
    check_done(H5Gget_info(group, &facts), "to count links");
    return static_cast<std::int64_t>(facts.nlinks);
}

bool has_link(hid_t group, const std::string& name) {
    const htri_t exists = H5Lexists(group, name.c_str(), H5P_DEFAULT);
    check_done(exists, "to look for " + name);
    if (exists == 0) return false;
    H5L_info_t facts{};
    check_done(H5Lget_info(group, name.c_str(), &facts, H5P_DEFAULT), "link " + name);
    if (facts.type != H5L_TYPE_HARD) throw Hdf5Error{name + " is a link to elsewhere"};
    return true;
}

std::vector<std::string> link_names(hid_t group) {
    constexpr std::size_t name_bytes_max = 1024;
    std::vector<std::string> names;
    const auto count = static_cast<hsize_t>(links_in(group));
    for (hsize_t i = 0; i < count; ++i) {
        std::array<char, name_bytes_max> name{};
        const ssize_t size = H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_NATIVE, i,
                                                name.data(), name.size(), H5P_DEFAULT);
        if (size <= 0 || size >= static_cast<ssize_t>(name.size())) {
            throw Hdf5Error{"a link has no usable name"};
        }
        names.emplace_back(name.data());
    }
    return names;
}

void write_number(hid_t object, const std::string& name, std::int32_t value) {
    write_attribute(object, name, H5T_STD_I32LE, make_scalar(), &value);
}

void write_number(hid_t object, const std::string& name, std::int64_t value) {
    write_attribute(object, name, H5T_STD_I64LE, make_scalar(), &value);
}

void write_numbers(hid_t object, const std::string& name, std::span<const std::int64_t> values) {
    write_attribute(object, name, H5T_STD_I64LE, make_space({values.size()}), values.data());
}

void write_words(hid_t object, const std::string& name, std::string_view text) {
    ENSURE(text.size() < words_bytes_max);
    const Handle type = type_for(text);
    const std::string ended{text};  // an empty one has its \0 to write
    write_attribute(object, name, type.id(), make_scalar(), ended.c_str());
}

std::int32_t read_int32(hid_t object, const std::string& name) {
    return read_scalar<std::int32_t>(object, name, H5T_STD_I32LE);
}

std::int64_t read_int64(hid_t object, const std::string& name) {
    return read_scalar<std::int64_t>(object, name, H5T_STD_I64LE);
}

std::vector<std::int64_t> read_numbers(hid_t object, const std::string& name,
                                       std::size_t count_max) {
    const Handle attribute = open_attribute(object, name);
    check_type(attribute, H5T_STD_I64LE, name);
    const Handle space{H5Aget_space(attribute.id()), H5Sclose, "space of " + name};
    const Extents extents = extents_of(space.id(), name);
    if (extents.size() != 1 || extents[0] < 1 || extents[0] > count_max) {
        throw Hdf5Error{name + " has other extents"};
    }
    std::vector<std::int64_t> values(extents[0]);
    check_done(H5Aread(attribute.id(), H5T_STD_I64LE, values.data()), "to read " + name);
    return values;
}

std::string read_words(hid_t object, const std::string& name) {
    const Handle attribute = open_attribute(object, name);
    check_scalar(attribute, name);
    const Handle type{H5Aget_type(attribute.id()), H5Tclose, "type of " + name};
    const std::size_t bytes = check_text_type(type.id(), name);
    if (bytes > words_bytes_max) throw Hdf5Error{name + " is too long"};
    std::string text(bytes, '\0');
    check_done(H5Aread(attribute.id(), type.id(), text.data()), "to read " + name);
    return without_padding(std::move(text));
}

void write_table(hid_t group, const std::string& name, hid_t type, const Extents& extents,
                 std::span<const std::byte> bytes) {
    const Handle space = extents.empty() ? make_scalar() : make_space(extents);
    const Handle creation = make_creation(H5D_ALLOC_TIME_EARLY);
    const Handle dataset{
        H5Dcreate2(group, name.c_str(), type, space.id(), H5P_DEFAULT, creation.id(), H5P_DEFAULT),
        H5Dclose, "dataset " + name};
    ENSURE(H5Tget_size(type) * static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.id())) ==
           bytes.size());
    check_done(H5Dwrite(dataset.id(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()),
               "to write " + name);
}

std::span<const std::byte> read_table(const Hdf5File& file, hid_t group, const std::string& name,
                                      hid_t type, const Extents& extents) {
    std::size_t bytes = H5Tget_size(type);
    for (const hsize_t extent : extents) {
        if (extent == 0 || bytes > file.structure().size() / extent) {
            throw Hdf5Error{name + " has impossible extents"};
        }
        bytes *= extent;
    }
    return bytes_of(file, open_dataset(group, name, type, extents), bytes, name);
}

hsize_t read_length(hid_t group, const std::string& name) {
    const Handle dataset = open_dataset(group, name);
    const Handle space{H5Dget_space(dataset.id()), H5Sclose, "space of " + name};
    const Extents extents = extents_of(space.id(), name);
    if (extents.size() != 1) throw Hdf5Error{name + " has other extents"};
    return extents[0];
}

void write_text(hid_t group, const std::string& name, std::string_view text) {
    const Handle type = type_for(text);
    const std::string ended{text};
    write_table(group, name, type.id(), {},
                std::as_bytes(std::span{ended.c_str(), std::max<std::size_t>(ended.size(), 1)}));
}

std::string read_text(const Hdf5File& file, hid_t group, const std::string& name) {
    const Handle dataset = open_dataset(group, name);
    const Handle space{H5Dget_space(dataset.id()), H5Sclose, "space of " + name};
    if (H5Sget_simple_extent_type(space.id()) != H5S_SCALAR) {
        throw Hdf5Error{name + " is more than one"};
    }
    const Handle type{H5Dget_type(dataset.id()), H5Tclose, "type of " + name};
    const std::size_t size = check_text_type(type.id(), name);
    const std::span<const std::byte> bytes = bytes_of(file, dataset, size, name);
    return without_padding({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

Handle create_values(hid_t group, const std::string& name, hid_t type, hsize_t elements) {
    const Handle space = make_space({elements});
    const Handle creation = make_creation(H5D_ALLOC_TIME_LATE);
    return {
        H5Dcreate2(group, name.c_str(), type, space.id(), H5P_DEFAULT, creation.id(), H5P_DEFAULT),
        H5Dclose, "dataset " + name};
}

std::int64_t place_values(const Handle& values) {
    // There is no call for it: the first element that is written makes HDF5 look for a place.
    const Handle space{H5Dget_space(values.id()), H5Sclose, "a space"};
    const hsize_t first = 0;
    const hsize_t one = 1;
    check_done(H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, &first, nullptr, &one, nullptr),
               "one element");
    const Handle memory = make_space({1});
    const double zero = 0;
    check_done(
        H5Dwrite(values.id(), H5T_NATIVE_DOUBLE, memory.id(), space.id(), H5P_DEFAULT, &zero),
        "a place for values");
    return offset_of(values, "a dataset");
}

std::int64_t find_values(hid_t group, const std::string& name, hid_t type, hsize_t elements) {
    return offset_of(open_dataset(group, name, type, {elements}), name);
}

}  // namespace rhizome::state
