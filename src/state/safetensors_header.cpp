#include "state/safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "core/text.hpp"

namespace rhizome::state {
namespace {

using Json = nlohmann::json;

constexpr const char* damaged_hint = "it is damaged or no safetensors file: take another copy";

struct ElementType {
    std::string_view name;
    std::int64_t bits;
};

// All of the format, so that what nobody knows can be told from what is only not read here.
constexpr std::array element_types{
    ElementType{"F32", 32},        ElementType{"F64", 64},    ElementType{"F16", 16},
    ElementType{"BF16", 16},       ElementType{"BOOL", 8},    ElementType{"U8", 8},
    ElementType{"I8", 8},          ElementType{"U16", 16},    ElementType{"I16", 16},
    ElementType{"U32", 32},        ElementType{"I32", 32},    ElementType{"U64", 64},
    ElementType{"I64", 64},        ElementType{"C64", 64},    ElementType{"F4", 4},
    ElementType{"F6_E2M3", 6},     ElementType{"F6_E3M2", 6}, ElementType{"F8_E4M3", 8},
    ElementType{"F8_E5M2", 8},     ElementType{"F8_E8M0", 8}, ElementType{"F8_E4M3FNUZ", 8},
    ElementType{"F8_E5M2FNUZ", 8},
};

/// One entry of the header as it is read: which of the three keys have come?
struct Entry {
    SafetensorsTensor tensor{};
    std::vector<std::int64_t> offsets;
    bool has_dtype = false;
    bool has_shape = false;
    bool has_offsets = false;
};

/// Takes the events of a JSON parser and answers false, with a reason, to the first that does not
/// fit the form of a header.
class Events final : public nlohmann::json_sax<Json> {
  public:
    [[nodiscard]] const std::string& reason() const { return reason_; }
    [[nodiscard]] SafetensorsHeader take() { return std::move(header_); }

    bool null() override { return other("null"); }
    bool boolean(bool /*value*/) override { return other("a truth value"); }
    bool number_integer(number_integer_t /*value*/) override { return other("a negative number"); }
    bool number_float(number_float_t /*value*/, const string_t& /*text*/) override {
        return other("no whole number of 64 bits");
    }
    bool binary(binary_t& /*value*/) override { return other("binary"); }

    bool number_unsigned(number_unsigned_t value) override {
        if (place_ != Place::shape && place_ != Place::offsets) return other("a number");
        if (value > INT64_MAX) return other("no whole number of 64 bits");
        auto& list = place_ == Place::shape ? entry_.tensor.shape : entry_.offsets;
        const std::size_t size_max = place_ == Place::shape ? safetensors_dimensions_max : 2;
        if (list.size() == size_max) {
            return fail(at() + " has more than " + std::to_string(size_max) + " numbers");
        }
        list.push_back(static_cast<std::int64_t>(value));
        return true;
    }

    bool string(string_t& value) override {
        if (place_ == Place::metadata) {
            header_.metadata.emplace(key_, std::move(value));
            return true;
        }
        if (place_ != Place::tensor || key_ != "dtype") return other("a text");
        entry_.tensor.dtype = std::move(value);
        return true;
    }

    bool start_object(std::size_t /*size*/) override {
        switch (place_) {
            case Place::outside:
                place_ = Place::header;
                return true;
            case Place::header:
                place_ = key_ == "__metadata__" ? Place::metadata : Place::tensor;
                entry_ = {};
                entry_.tensor.name = key_;
                return true;
            default:
                return other("an object");
        }
    }

    bool key(string_t& name) override {
        if (place_ == Place::header) {
            if (!names_.insert(name).second) return fail("name " + shown(name) + " twice");
        } else if (place_ == Place::metadata) {
            if (header_.metadata.contains(name)) {
                return fail("metadata " + shown(name) + " twice");
            }
        } else {
            bool* const has = name == "dtype"          ? &entry_.has_dtype
                              : name == "shape"        ? &entry_.has_shape
                              : name == "data_offsets" ? &entry_.has_offsets
                                                       : nullptr;
            if (has == nullptr) return fail(tensor() + " has an unknown key, " + shown(name));
            if (*has) return fail(tensor() + " has " + name + " twice");
            *has = true;
        }
        key_ = std::move(name);
        return true;
    }

    bool end_object() override {
        if (place_ == Place::tensor) {
            if (!entry_.has_dtype) return fail(tensor() + " has no dtype");
            if (!entry_.has_shape) return fail(tensor() + " has no shape");
            if (!entry_.has_offsets) return fail(tensor() + " has no data_offsets");
            if (!finish_entry()) return false;
        }
        place_ = place_ == Place::header ? Place::outside : Place::header;
        return true;
    }

    bool start_array(std::size_t /*size*/) override {
        if (place_ != Place::tensor || key_ == "dtype") return other("a list");
        place_ = key_ == "shape" ? Place::shape : Place::offsets;
        return true;
    }

    bool end_array() override {
        place_ = Place::tensor;
        return true;
    }

    bool parse_error(std::size_t position, const std::string& /*token*/,
                     const Json::exception& /*error*/) override {
        return fail("header is no JSON from its byte " + std::to_string(position) + " on");
    }

  private:
    enum class Place : std::uint8_t { outside, header, metadata, tensor, shape, offsets };

    bool fail(std::string reason) {
        reason_ = std::move(reason);
        return false;
    }
    /// A value that has no business where it is.
    bool other(const std::string& what) { return fail(at() + " is or holds " + what); }
    [[nodiscard]] std::string tensor() const { return "tensor " + shown(entry_.tensor.name); }
    [[nodiscard]] std::string at() const {
        switch (place_) {
            case Place::outside:
                return "header";
            case Place::header:
                return "entry " + shown(key_);
            case Place::metadata:
                return "metadata " + shown(key_);
            default:
                return shown(key_) + " of " + tensor();
        }
    }

    /// Size, type and shape of one tensor fit.
    bool finish_entry() {
        SafetensorsTensor& t = entry_.tensor;
        const auto* const type =
            std::ranges::find(element_types, std::string_view{t.dtype}, &ElementType::name);
        if (type == element_types.end()) {
            return fail(tensor() + " has the unknown dtype " + shown(t.dtype));
        }
        if (entry_.offsets.size() != 2 || entry_.offsets[0] > entry_.offsets[1]) {
            return fail("data_offsets of " + tensor() + " are no beginning and end");
        }
        t.offset = entry_.offsets[0];
        t.bytes = entry_.offsets[1] - entry_.offsets[0];
        std::int64_t bits = type->bits;
        for (const std::int64_t extent : t.shape) {
            if (__builtin_mul_overflow(bits, extent, &bits)) {
                return fail(tensor() + " of shape " + shape_text(t.shape) +
                            " has more bytes than can be counted");
            }
        }
        if (bits % 8 != 0 || bits / 8 != t.bytes) {
            return fail(tensor() + " of dtype " + t.dtype + " and shape " + shape_text(t.shape) +
                        " has " + std::to_string(t.bytes) + " bytes");
        }
        header_.tensors.push_back(std::move(t));
        return true;
    }

    SafetensorsHeader header_;
    std::set<std::string> names_;
    Place place_ = Place::outside;
    std::string key_;  // the last one
    Entry entry_;
    std::string reason_;
};

/// Puts the tensors in the order of their data, and answers why these do not fill the file; empty
/// if they do.
std::string find_misplaced(std::vector<SafetensorsTensor>& tensors, std::int64_t data_bytes) {
    std::ranges::stable_sort(tensors, [](const auto& a, const auto& b) {
        return std::pair{a.offset, a.bytes} < std::pair{b.offset, b.bytes};
    });
    std::int64_t end = 0;
    const SafetensorsTensor* before = nullptr;
    for (const SafetensorsTensor& tensor : tensors) {
        if (tensor.offset < end) {
            return "tensors " + shown(before->name) + " and " + shown(tensor.name) + " overlap";
        }
        if (tensor.offset > end) {
            return "bytes " + std::to_string(end) + " to " + std::to_string(tensor.offset) +
                   " of its data belong to no tensor";
        }
        end += tensor.bytes;
        if (end > data_bytes) {
            return "tensor " + shown(tensor.name) + " ends at byte " + std::to_string(end) +
                   " of " + std::to_string(data_bytes);
        }
        before = &tensor;
    }
    if (end == data_bytes) return {};
    return "its last " + counted(data_bytes - end, "byte") + " belong to no tensor";
}

}  // namespace

std::string shown(std::string_view text) {
    constexpr std::size_t characters_max = 100;
    const std::string line = visible(text.substr(0, characters_max));
    return text.size() > characters_max ? line + "..." : line;
}

SafetensorsHeader parse_safetensors_header(const std::string& path, std::string_view json,
                                           std::int64_t data_bytes) {
    // The parser takes a zero byte for the end of its input.
    if (json.empty() || json.front() != '{' || json.find('\0') != std::string_view::npos) {
        throw SafetensorsError{path, "header is no JSON object", damaged_hint};
    }
    Events events;
    if (!Json::sax_parse(json, &events)) {
        throw SafetensorsError{path, events.reason(), damaged_hint};
    }
    SafetensorsHeader header = events.take();
    const std::string misplaced = find_misplaced(header.tensors, data_bytes);
    if (!misplaced.empty()) throw SafetensorsError{path, misplaced, damaged_hint};
    return header;
}

std::string safetensors_header_text(const std::map<std::string, std::string>& metadata,
                                    std::span<const SafetensorsTensor> tensors) {
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    if (!metadata.empty()) header["__metadata__"] = metadata;
    for (const SafetensorsTensor& tensor : tensors) {
        ENSURE(!header.contains(tensor.name));
        header[tensor.name] = {{"dtype", tensor.dtype},
                               {"shape", tensor.shape},
                               {"data_offsets", {tensor.offset, tensor.offset + tensor.bytes}}};
    }
    std::string text =
        header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    text.resize((text.size() + 7) / 8 * 8, ' ');
    return text;
}

}  // namespace rhizome::state
