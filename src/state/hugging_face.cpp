#include "state/hugging_face.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <set>

#include "core/text.hpp"
#include "state/safetensors_header.hpp"

namespace rhizome::state {
namespace {

constexpr std::string_view prefix = "transformer.";
constexpr std::string_view block_prefix = "h.";
constexpr std::string_view head_name = "lm_head.weight";  // the one name without prefix

/// A tensor of a block: both names, and its extents in channels. Matrices have inputs as well, and
/// are the transposed ones.
struct Part {
    std::string_view ours;
    std::string_view theirs;
    std::int64_t outputs;
    std::int64_t inputs;
};

constexpr std::array block_parts{
    Part{"norm_1.weight", "ln_1.weight", 1, 0},
    Part{"norm_1.bias", "ln_1.bias", 1, 0},
    Part{"attention.weight", "attn.c_attn.weight", 3, 1},
    Part{"attention.bias", "attn.c_attn.bias", 3, 0},
    Part{"projection.weight", "attn.c_proj.weight", 1, 1},
    Part{"projection.bias", "attn.c_proj.bias", 1, 0},
    Part{"norm_2.weight", "ln_2.weight", 1, 0},
    Part{"norm_2.bias", "ln_2.bias", 1, 0},
    Part{"expand.weight", "mlp.c_fc.weight", 4, 1},
    Part{"expand.bias", "mlp.c_fc.bias", 4, 0},
    Part{"contract.weight", "mlp.c_proj.weight", 1, 4},
    Part{"contract.bias", "mlp.c_proj.bias", 1, 0},
};

/// One tensor under both names; the shape is ours.
struct Pair {
    std::string ours;
    std::string theirs;
    Shape shape;
    Layout layout;
};

/// All of a GPT's, in our order.
std::vector<Pair> all_pairs(const GptFacts& facts) {
    const std::int64_t c = facts.channels;
    const Shape vocabulary{facts.vocabulary, c};
    const std::string theirs{prefix};
    std::vector<Pair> pairs{
        {"embedding/token", theirs + "wte.weight", vocabulary, Layout::same},
        {"embedding/position", theirs + "wpe.weight", {facts.context, c}, Layout::same}};
    for (std::int32_t block = 0; block < facts.blocks; ++block) {
        const std::string ours_of_block = "block." + std::to_string(block) + "/";
        const std::string theirs_of_block = theirs + "h." + std::to_string(block) + ".";
        for (const Part& part : block_parts) {
            const bool matrix = part.inputs > 0;
            pairs.push_back(
                {ours_of_block + std::string{part.ours}, theirs_of_block + std::string{part.theirs},
                 matrix ? Shape{part.outputs * c, part.inputs * c} : Shape{part.outputs * c},
                 matrix ? Layout::transposed : Layout::same});
        }
    }
    pairs.push_back({"final_norm/weight", theirs + "ln_f.weight", {c}, Layout::same});
    pairs.push_back({"final_norm/bias", theirs + "ln_f.bias", {c}, Layout::same});
    if (facts.head == Head::untied) {
        pairs.push_back({"head/weight", std::string{head_name}, vocabulary, Layout::same});
    }
    return pairs;
}

std::vector<std::int64_t> extents_of(const Shape& shape, Layout layout) {
    std::vector<std::int64_t> extents;
    for (std::size_t i = 0; i < shape.dimensions(); ++i) extents.push_back(shape[i]);
    if (layout == Layout::transposed) std::ranges::reverse(extents);
    return extents;
}

bool fits_int32(std::int64_t value) {
    return value > 0 && value <= std::numeric_limits<std::int32_t>::max();
}

/// The name within the model: some files have a prefix, some do not.
std::string_view without_prefix(std::string_view name) {
    return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

/// What follows the block's number in a name such as h.3.ln_1.weight; nothing for other names.
std::optional<std::string_view> part_of_block(std::string_view name) {
    if (!name.starts_with(block_prefix)) return std::nullopt;
    name.remove_prefix(block_prefix.size());
    const std::size_t dot = name.find('.');
    if (dot == std::string_view::npos || !parse_unsigned(name.substr(0, dot))) return std::nullopt;
    return name.substr(dot + 1);
}

/// Attention masks, which older files store with the weights.
bool is_buffer(std::string_view name) {
    const auto part = part_of_block(name);
    return part == "attn.bias" || part == "attn.masked_bias";
}

template <std::size_t element_bytes>
void transpose_elements(const std::byte* from, std::byte* to, std::size_t rows,
                        std::size_t columns) {
    constexpr std::size_t tile = 32;  // both sides of a tile stay in the nearest cache
    for (std::size_t row_0 = 0; row_0 < rows; row_0 += tile) {
        const std::size_t row_end = std::min(row_0 + tile, rows);
        for (std::size_t column_0 = 0; column_0 < columns; column_0 += tile) {
            const std::size_t column_end = std::min(column_0 + tile, columns);
            for (std::size_t row = row_0; row < row_end; ++row) {
                for (std::size_t column = column_0; column < column_end; ++column) {
                    std::memcpy(to + (column * rows + row) * element_bytes,
                                from + (row * columns + column) * element_bytes, element_bytes);
                }
            }
        }
    }
}

/// `from` is (rows, columns).
void transpose(std::span<const std::byte> from, std::span<std::byte> to, std::int64_t rows,
               std::int64_t columns, DType dtype) {
    ENSURE(from.size() == to.size());
    ENSURE(static_cast<std::int64_t>(from.size()) == rows * columns * bytes_of(dtype));
    const auto r = static_cast<std::size_t>(rows);
    const auto c = static_cast<std::size_t>(columns);
    if (dtype == DType::f64) {
        transpose_elements<8>(from.data(), to.data(), r, c);
    } else {
        transpose_elements<4>(from.data(), to.data(), r, c);
    }
}

/// The values of both, which have the same type and shape.
bool same_bits(const SafetensorsReader& reader, const SafetensorsTensor& a,
               const SafetensorsTensor& b) {
    constexpr std::int64_t piece_bytes_max = 1 << 20;
    const std::int64_t element_bytes = bytes_of(reader.dtype_of(a));
    std::vector<std::byte> one;
    std::vector<std::byte> other;
    for (std::int64_t done = 0; done < a.bytes;) {
        const auto bytes = static_cast<std::size_t>(std::min(piece_bytes_max, a.bytes - done));
        one.resize(bytes);
        other.resize(bytes);
        reader.read(a, done / element_bytes, one);
        reader.read(b, done / element_bytes, other);
        if (one != other) return false;
        done += static_cast<std::int64_t>(bytes);
    }
    return true;
}

/// "a", or "a and 3 more".
std::string first_of(const std::vector<std::string>& names) {
    std::string first = shown(names.front());
    if (names.size() == 1) return first;
    return first + " and " + std::to_string(names.size() - 1) + " more";
}

}  // namespace

StoredTable gpt_table(const GptFacts& facts, std::int64_t chunk_elements) {
    StoredTable table{.tensors = {}, .ties = {}, .chunk_elements = chunk_elements};
    for (Pair& pair : all_pairs(facts)) {
        table.tensors.push_back({std::move(pair.ours), pair.shape, facts.dtype});
    }
    if (facts.head == Head::tied) table.ties.push_back({"head/weight", "embedding/token"});
    return table;
}

std::optional<GptFacts> gpt_facts_of(const StoredTable& table) {
    const auto blocks = std::ranges::count_if(table.tensors, [](const StoredTensor& tensor) {
        return tensor.name.ends_with("/norm_1.weight");
    });
    if (blocks == 0) return std::nullopt;
    const StoredTensor& token = table.tensors[0];
    const StoredTensor& position = table.tensors[1 % table.tensors.size()];
    if (token.shape.dimensions() != 2 || position.shape.dimensions() != 2) return std::nullopt;
    for (const std::int64_t extent :
         {std::int64_t{blocks}, token.shape[0], token.shape[1], position.shape[0]}) {
        if (!fits_int32(extent)) return std::nullopt;
    }
    const GptFacts facts{.blocks = static_cast<std::int32_t>(blocks),
                         .channels = static_cast<std::int32_t>(token.shape[1]),
                         .context = static_cast<std::int32_t>(position.shape[0]),
                         .vocabulary = static_cast<std::int32_t>(token.shape[0]),
                         .head = table.ties.empty() ? Head::untied : Head::tied,
                         .dtype = token.dtype};
    if (gpt_table(facts, table.chunk_elements) != table) return std::nullopt;
    return facts;
}

std::vector<HuggingFaceTensor> hugging_face_tensors(const StoredTable& table) {
    const auto facts = gpt_facts_of(table);
    if (!facts) {
        throw DataError{
            "network (its tensors are not those of a GPT), only GPTs have names at Hugging Face "
            "that are known here"};
    }
    std::vector<HuggingFaceTensor> tensors;
    for (Pair& pair : all_pairs(*facts)) {
        tensors.push_back({static_cast<std::int32_t>(tensors.size()), std::move(pair.theirs),
                           extents_of(pair.shape, pair.layout), pair.layout});
    }
    return tensors;
}

void export_gpt2(FileSystem& files, const std::string& path, const StoredTable& table,
                 std::int32_t heads, TensorSource& source,
                 std::map<std::string, std::string> metadata, Existing existing) {
    const std::vector<HuggingFaceTensor> tensors = hugging_face_tensors(table);
    const DType dtype = table.tensors.front().dtype;
    metadata["format"] = "pt";  // the row-major layout of PyTorch
    metadata[heads_key] = std::to_string(heads);
    std::vector<SafetensorsSpec> specs;
    specs.reserve(tensors.size());
    for (const HuggingFaceTensor& tensor : tensors) {
        specs.push_back({tensor.name, tensor.shape, dtype});
    }
    SafetensorsWriter writer{files, path, specs, metadata, existing};
    std::vector<std::byte> ours;
    std::vector<std::byte> theirs;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const Shape& shape = table.tensors[i].shape;
        ours.resize(static_cast<std::size_t>(shape.elements() * bytes_of(dtype)));
        source.read(tensors[i].tensor, ours);
        if (tensors[i].layout == Layout::same) {
            writer.write(i, ours);
            continue;
        }
        theirs.resize(ours.size());
        transpose(ours, theirs, shape[0], shape[1], dtype);
        writer.write(i, theirs);
    }
    writer.commit();
}

Gpt2File::Gpt2File(FileSystem& files, const std::string& path, const ImportOptions& options)
    : reader_{files, path} {
    ENSURE(options.chunk_elements > 0);
    list_tensors();
    find_facts(options.head);
    find_heads(options.heads);
    table_ = gpt_table(facts_, options.chunk_elements);
    tensors_ = hugging_face_tensors(table_);
    match_tensors();
}

void Gpt2File::read(std::int32_t tensor, std::span<std::byte> to) {
    ENSURE(tensor >= 0 && static_cast<std::size_t>(tensor) < stored_.size());
    const auto place = static_cast<std::size_t>(tensor);
    const SafetensorsTensor& stored = *stored_[place];
    if (tensors_[place].layout == Layout::same) {
        reader_.read(stored, to);
        return;
    }
    std::vector<std::byte> theirs(static_cast<std::size_t>(stored.bytes));
    reader_.read(stored, theirs);
    transpose(theirs, to, stored.shape[0], stored.shape[1], facts_.dtype);
}

void Gpt2File::fail(const std::string& reason, const std::string& hint) const {
    throw SafetensorsError{reader_.path(), reason, hint};
}

void Gpt2File::list_tensors() {
    for (const SafetensorsTensor& tensor : reader_.tensors()) {
        const std::string_view name = without_prefix(tensor.name);
        if (is_buffer(name)) continue;
        const auto [place, is_new] = found_.emplace(name, &tensor);
        if (!is_new) {
            fail("tensors " + shown(place->second->name) + " and " + shown(tensor.name) +
                     " are the same",
                 "take one of them out");
        }
    }
}

const SafetensorsTensor& Gpt2File::needed(const std::string& name) const {
    const auto place = found_.find(name);
    if (place == found_.end()) {
        fail("has no tensor " + name, "only GPT-2 models of Hugging Face's form can be read");
    }
    return *place->second;
}

void Gpt2File::find_facts(std::optional<Head> head) {
    const SafetensorsTensor& token = needed("wte.weight");
    const SafetensorsTensor& position = needed("wpe.weight");
    for (const SafetensorsTensor* const tensor : {&token, &position}) {
        if (tensor->shape.size() != 2 || !std::ranges::all_of(tensor->shape, fits_int32)) {
            fail("tensor " + shown(tensor->name) + " has the shape " + shape_text(tensor->shape) +
                     ", not (rows, channels)",
                 "only GPT-2 models of Hugging Face's form can be read");
        }
    }
    // Counted, not taken from the numbers in the names: a table is as large as its file allows.
    const auto blocks = std::ranges::count_if(
        found_, [](const auto& entry) { return part_of_block(entry.first) == "ln_1.weight"; });
    if (blocks == 0) (void)needed("h.0.ln_1.weight");
    facts_ = {.blocks = static_cast<std::int32_t>(blocks),
              .channels = static_cast<std::int32_t>(token.shape[1]),
              .context = static_cast<std::int32_t>(position.shape[0]),
              .vocabulary = static_cast<std::int32_t>(token.shape[0]),
              .head = Head::tied,
              .dtype = reader_.dtype_of(token)};
    facts_.head = find_head(head);
}

Head Gpt2File::find_head(std::optional<Head> wanted) const {
    const auto place = found_.find(std::string{head_name});
    if (place == found_.end()) {
        if (wanted == Head::untied) {
            fail("has no " + std::string{head_name}, "read it as a tied model");
        }
        return Head::tied;
    }
    if (wanted == Head::untied) return Head::untied;
    const SafetensorsTensor& head = *place->second;
    const SafetensorsTensor& token = needed("wte.weight");
    if (head.dtype == token.dtype && head.shape == token.shape && same_bits(reader_, head, token)) {
        return Head::tied;
    }
    if (wanted == Head::tied) {
        fail("its " + std::string{head_name} + " is not its token embedding",
             "read it as an untied model");
    }
    return Head::untied;
}

void Gpt2File::find_heads(std::optional<std::int32_t> wanted) {
    std::optional<std::int64_t> heads = wanted;
    if (const auto said = metadata().find(heads_key); said != metadata().end()) {
        const auto number = parse_integer(said->second);
        if (wanted && number != *wanted) {
            fail("says that it has " + shown(said->second) + " attention heads",
                 "leave the number out or give the same");
        }
        // What is no number is no divisor either.
        heads = number.value_or(0);
    }
    if (!heads) {
        fail("does not say how many attention heads it has",
             "give their number, which the model's config.json has as n_head");
    }
    if (*heads < 1 || facts_.channels % *heads != 0) {
        fail(std::to_string(*heads) + " attention heads do not divide its " +
                 counted(facts_.channels, "channel"),
             "give the number that the model's config.json has as n_head");
    }
    heads_ = static_cast<std::int32_t>(*heads);
}

void Gpt2File::match_tensors() {
    const std::string hint = "only GPT-2 models of Hugging Face's form can be read";
    std::set<std::string_view> known;
    std::vector<std::string> missing;
    for (const HuggingFaceTensor& tensor : tensors_) {
        const std::string_view name = without_prefix(tensor.name);
        known.insert(name);
        const auto place = found_.find(std::string{name});
        if (place == found_.end()) {
            missing.emplace_back(name);
            continue;
        }
        const SafetensorsTensor& stored = *place->second;
        if (stored.shape != tensor.shape) {
            fail("tensor " + shown(stored.name) + " has the shape " + shape_text(stored.shape) +
                     " instead of " + shape_text(tensor.shape),
                 hint);
        }
        if (reader_.dtype_of(stored) != facts_.dtype) {
            fail("tensor " + shown(stored.name) + " has another dtype than wte.weight",
                 "convert all to one");
        }
        stored_.push_back(&stored);
    }
    if (!missing.empty()) fail("has no tensor " + first_of(missing), hint);
    if (facts_.head == Head::tied) known.insert(head_name);  // found to be the embedding
    std::vector<std::string> surplus;
    for (const auto& [name, tensor] : found_) {
        if (!known.contains(name)) surplus.push_back(tensor->name);
    }
    if (!surplus.empty()) fail("has a tensor that no GPT-2 has, " + first_of(surplus), hint);
}

}  // namespace rhizome::state
