#include "state/safetensors.hpp"

#include <array>
#include <bit>
#include <filesystem>

#include "core/text.hpp"
#include "state/safetensors_header.hpp"

namespace rhizome::state {
namespace {

static_assert(std::endian::native == std::endian::little);  // as the format; values are copied

constexpr std::int64_t length_bytes = 8;  // of the number that a file begins with

constexpr const char* damaged_hint = "it is damaged or no safetensors file: take another copy";

std::optional<DType> readable(std::string_view dtype) {
    if (dtype == "F32") return DType::f32;
    if (dtype == "F64") return DType::f64;
    return std::nullopt;
}

std::string name_of(DType dtype) {
    ENSURE(dtype == DType::f32 || dtype == DType::f64);
    return dtype == DType::f32 ? "F32" : "F64";
}

/// The header's JSON. Checks that there is one before it makes room for it.
std::string read_header(const File& file, const std::string& path) {
    const std::int64_t bytes = file.bytes();
    if (bytes < length_bytes) {
        throw SafetensorsError{path, "is only " + counted(bytes, "byte") + " long", damaged_hint};
    }
    std::array<std::byte, length_bytes> raw{};
    file.read_at(0, raw);
    const auto length = std::bit_cast<std::uint64_t>(raw);
    if (length > static_cast<std::uint64_t>(safetensors_header_bytes_max)) {
        throw SafetensorsError{path,
                               "header of " + std::to_string(length) + " bytes, of at most " +
                                   std::to_string(safetensors_header_bytes_max),
                               damaged_hint};
    }
    if (length > static_cast<std::uint64_t>(bytes - length_bytes)) {
        throw SafetensorsError{
            path,
            "header of " + std::to_string(length) + " bytes in a file of " + std::to_string(bytes),
            damaged_hint};
    }
    std::string json(length, ' ');
    file.read_at(length_bytes, std::as_writable_bytes(std::span{json}));
    return json;
}

/// An entry without a name stays behind when this is not synced; some file systems need it.
std::string folder_of(const std::string& path) {
    const std::filesystem::path folder = std::filesystem::path{path}.parent_path();
    return folder.empty() ? "." : folder.string();
}

/// Removes a file of that name. Whatever else has it is not ours to remove.
void make_way(FileSystem& files, const std::string& path) {
    const std::optional<EntryKind> kind = files.kind_of(path);
    if (!kind) return;
    if (*kind != EntryKind::file) {
        throw FileError{path, "is no file", std::make_error_code(std::errc::file_exists)};
    }
    files.remove_all(path);
}

/// Where the tensors go, one behind the other; offsets count from the header's end.
std::vector<SafetensorsTensor> place_all(std::span<const SafetensorsSpec> specs) {
    std::vector<SafetensorsTensor> tensors;
    std::int64_t end = 0;
    for (const SafetensorsSpec& spec : specs) {
        std::int64_t bytes = bytes_of(spec.dtype);
        for (const std::int64_t extent : spec.shape) {
            ENSURE(extent >= 0 && !__builtin_mul_overflow(bytes, extent, &bytes));
        }
        tensors.push_back({spec.name, name_of(spec.dtype), spec.shape, end, bytes});
        end += bytes;
    }
    return tensors;
}

}  // namespace

SafetensorsError::SafetensorsError(const std::string& path_of_file, const std::string& why,
                                   const std::string& hint)
    : DataError{"safetensors file " + visible(path_of_file) + " (" + why + "), " + hint},
      path{path_of_file},
      reason{why} {}

std::string shape_text(std::span<const std::int64_t> shape) {
    std::string text = "(";
    for (std::size_t i = 0; i < shape.size(); ++i) {
        text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
    }
    return text + ")";
}

SafetensorsReader::SafetensorsReader(FileSystem& files, const std::string& path)
    : path_{path}, file_{files.open(path)} {
    const std::string json = read_header(*file_, path);
    const std::int64_t data_begin = length_bytes + static_cast<std::int64_t>(json.size());
    SafetensorsHeader header = parse_safetensors_header(path, json, file_->bytes() - data_begin);
    metadata_ = std::move(header.metadata);
    tensors_ = std::move(header.tensors);
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
        tensors_[i].offset += data_begin;
        place_of_.emplace(tensors_[i].name, i);
    }
}

const SafetensorsTensor* SafetensorsReader::find(std::string_view name) const {
    const auto place = place_of_.find(name);
    return place == place_of_.end() ? nullptr : &tensors_[place->second];
}

DType SafetensorsReader::dtype_of(const SafetensorsTensor& tensor) const {
    if (const auto dtype = readable(tensor.dtype)) return *dtype;
    throw SafetensorsError{
        path_,
        "tensor " + shown(tensor.name) + " has dtype " + tensor.dtype + ", which is not read here",
        "convert it to F32 first"};
}

void SafetensorsReader::read(const SafetensorsTensor& tensor, std::int64_t first_element,
                             std::span<std::byte> to) const {
    const std::int64_t element_bytes = bytes_of(dtype_of(tensor));
    const auto count = static_cast<std::int64_t>(to.size());
    ENSURE(count % element_bytes == 0);
    ENSURE(first_element >= 0 && first_element <= tensor.bytes / element_bytes);
    ENSURE(count <= tensor.bytes - first_element * element_bytes);
    file_->read_at(tensor.offset + first_element * element_bytes, to);
}

void SafetensorsReader::read(const SafetensorsTensor& tensor, std::span<std::byte> to) const {
    ENSURE(static_cast<std::int64_t>(to.size()) == tensor.bytes);
    read(tensor, 0, to);
}

SafetensorsWriter::SafetensorsWriter(FileSystem& files, const std::string& path,
                                     std::span<const SafetensorsSpec> tensors,
                                     const std::map<std::string, std::string>& metadata,
                                     Existing existing)
    : files_{files},
      path_{path},
      part_{path + ".part"},
      existing_{existing},
      tensors_{place_all(tensors)},
      written_(tensors.size()) {
    if (const auto kind = files_.kind_of(path_)) {
        if (*kind != EntryKind::file || existing_ == Existing::keep) {
            throw FileError{path_, *kind == EntryKind::file ? "exists already" : "is no file",
                            std::make_error_code(std::errc::file_exists)};
        }
    }
    const std::string json = safetensors_header_text(metadata, tensors_);
    ENSURE(static_cast<std::int64_t>(json.size()) <= safetensors_header_bytes_max);
    make_way(files_, part_);
    file_ = files_.create(part_);
    try {
        const auto length =
            std::bit_cast<std::array<std::byte, length_bytes>>(std::uint64_t{json.size()});
        file_->write_at(0, length);
        file_->write_at(length_bytes, std::as_bytes(std::span{json}));
    } catch (...) {
        file_.reset();
        files_.remove_all(part_);
        throw;
    }
    for (SafetensorsTensor& tensor : tensors_) {
        tensor.offset += length_bytes + static_cast<std::int64_t>(json.size());
    }
}

SafetensorsWriter::~SafetensorsWriter() {
    if (!file_) return;
    file_.reset();
    try {
        files_.remove_all(part_);
    } catch (const FileError&) {  // the next writer of this name removes it, or says why it cannot
        return;
    }
}

void SafetensorsWriter::write(std::size_t tensor, std::span<const std::byte> values) {
    ENSURE(file_ != nullptr && tensor < tensors_.size() && !written_[tensor]);
    ENSURE(static_cast<std::int64_t>(values.size()) == tensors_[tensor].bytes);
    if (!values.empty()) file_->write_at(tensors_[tensor].offset, values);
    written_[tensor] = true;
}

void SafetensorsWriter::commit() {
    ENSURE(file_ != nullptr);
    for (const bool written : written_) ENSURE(written);
    file_->sync();
    take_name();
    file_.reset();
    files_.sync_folder(folder_of(path_));
}

void SafetensorsWriter::take_name() {
    if (existing_ == Existing::keep || files_.kind_of(path_) != EntryKind::file) {
        files_.rename(part_, path_);
        return;
    }
    // A rename never replaces. So the old file steps aside first; whoever dies here leaves both.
    const std::string old = path_ + ".old";
    make_way(files_, old);
    files_.rename(path_, old);
    try {
        files_.rename(part_, path_);
    } catch (...) {
        files_.rename(old, path_);
        throw;
    }
    files_.remove_all(old);
}

}  // namespace rhizome::state
