#include "state/raw_file.hpp"

#include <limits>

#include "core/text.hpp"
#include "state/history_text.hpp"
#include "state/safetensors_header.hpp"
#include "state/stored_table.hpp"

namespace rhizome::state {
namespace {

constexpr const char* version_key = "rhizome.raw";
constexpr const char* version = "1";
constexpr const char* tensors_key = "rhizome.tensors";
constexpr const char* ties_key = "rhizome.ties";
constexpr const char* chunk_elements_key = "rhizome.chunk_elements";
constexpr const char* raw_hint = "take a file that `rhizome-state export --raw` has written";

std::string name_in_file(const std::string& tensor, Value value) {
    return std::string{name_of(value)} + "/" + tensor;
}

std::vector<std::int64_t> extents_of(const Shape& shape) {
    std::vector<std::int64_t> extents;
    for (std::size_t d = 0; d < shape.dimensions(); ++d) extents.push_back(shape[d]);
    return extents;
}

/// Nothing if there is none for so many extents, or one of them is 0.
std::optional<Shape> shape_of(const std::vector<std::int64_t>& extents) {
    for (const std::int64_t extent : extents) {
        if (extent < 1) return std::nullopt;
    }
    switch (extents.size()) {
        case 1:
            return Shape{extents[0]};
        case 2:
            return Shape{extents[0], extents[1]};
        case 3:
            return Shape{extents[0], extents[1], extents[2]};
        case 4:
            return Shape{extents[0], extents[1], extents[2], extents[3]};
        default:
            return std::nullopt;
    }
}

std::vector<std::string> lines_of(std::string_view text) {
    std::vector<std::string> lines;
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        lines.emplace_back(line);
    }
    return lines;
}

}  // namespace

std::map<std::string, std::string> metadata_of(const StateFacts& facts) {
    return {{"rhizome.steps", std::to_string(facts.steps)},
            {"rhizome.saved_at", facts.saved_at},
            {"rhizome.program", facts.program},
            {mathematics_key, facts.mathematics},
            {"rhizome.layout", facts.layout},
            {"rhizome.mathematics_digest", facts.mathematics_digest},
            {"rhizome.data_digest", facts.data_digest},
            {"rhizome.fingerprint", facts.fingerprint},
            {"rhizome.samples", std::to_string(facts.samples)},
            {"rhizome.samples_per_pass", std::to_string(facts.samples_per_pass)},
            {"rhizome.history", history_text(facts.history)}};
}

void export_raw(FileSystem& files, const std::string& path, StateReader& state) {
    const StoredTable& table = state.index().table;
    std::map<std::string, std::string> metadata = metadata_of(state.index().facts);
    metadata[version_key] = version;
    metadata[chunk_elements_key] = std::to_string(table.chunk_elements);
    std::string names;
    std::string ties;
    std::vector<SafetensorsSpec> specs;
    for (const StoredTensor& tensor : table.tensors) {
        names += tensor.name + "\n";
        for (const Value value : all_values) {
            specs.push_back(
                {name_in_file(tensor.name, value), extents_of(tensor.shape), tensor.dtype});
        }
    }
    for (const StoredTie& tie : table.ties) ties += tie.use + " = " + tie.owner + "\n";
    metadata[tensors_key] = names;
    metadata[ties_key] = ties;
    SafetensorsWriter writer{files, path, specs, metadata, Existing::keep};
    std::vector<std::byte> values;
    for (std::size_t i = 0; i < specs.size(); ++i) {
        const auto tensor = i / all_values.size();
        values.resize(static_cast<std::size_t>(table.tensors[tensor].shape.elements() *
                                               bytes_of(specs[i].dtype)));
        state.read_tensor(static_cast<std::int32_t>(tensor), all_values[i % all_values.size()],
                          values);
        writer.write(i, values);
    }
    writer.commit();
}

bool is_raw(const std::map<std::string, std::string>& metadata) {
    return metadata.contains(version_key);
}

RawFile::RawFile(FileSystem& files, const std::string& path) : reader_{files, path} {
    if (text(version_key) != version) {
        throw SafetensorsError{path,
                               "holds a state in version " + shown(text(version_key)) +
                                   " of its form, " + version + " is known",
                               "take a newer program"};
    }
    read_facts();
    read_table();
}

void RawFile::read(std::int32_t tensor, Value value, std::span<std::byte> to) const {
    reader_.read(stored(table_.tensors.at(static_cast<std::size_t>(tensor)).name, value), to);
}

void RawFile::fail(const std::string& reason) const {
    throw SafetensorsError{reader_.path(), reason, raw_hint};
}

const std::string& RawFile::text(const std::string& key) const {
    const auto found = reader_.metadata().find(key);
    if (found == reader_.metadata().end()) fail("its metadata have no " + key);
    return found->second;
}

std::int64_t RawFile::number(const std::string& key, std::int64_t largest) const {
    const auto number = parse_integer(text(key));
    if (!number || *number < 0 || *number > largest) {
        fail(key + " is no number there can be: " + shown(text(key)));
    }
    return *number;
}

void RawFile::read_facts() {
    constexpr std::int64_t int32_max = std::numeric_limits<std::int32_t>::max();
    constexpr std::int64_t int64_max = std::numeric_limits<std::int64_t>::max();
    facts_.steps = static_cast<std::int32_t>(number("rhizome.steps", int32_max));
    facts_.saved_at = text("rhizome.saved_at");
    facts_.program = text("rhizome.program");
    facts_.mathematics = text(mathematics_key);
    facts_.layout = text("rhizome.layout");
    facts_.mathematics_digest = text("rhizome.mathematics_digest");
    facts_.data_digest = text("rhizome.data_digest");
    facts_.fingerprint = text("rhizome.fingerprint");
    facts_.samples = number("rhizome.samples", int64_max);
    facts_.samples_per_pass = number("rhizome.samples_per_pass", int64_max);
    auto history = parse_history(text("rhizome.history"));
    if (!history) fail("rhizome.history is no history");
    facts_.history = std::move(*history);
}

void RawFile::read_table() {
    table_.chunk_elements = number(chunk_elements_key, std::numeric_limits<std::int64_t>::max());
    for (const std::string& name : lines_of(text(tensors_key))) {
        const SafetensorsTensor& parameter = stored(name, Value::parameter);
        const auto shape = shape_of(parameter.shape);
        if (!shape) {
            fail("no state has a tensor of the shape " + shape_text(parameter.shape) + ", as " +
                 shown(name) + " has");
        }
        table_.tensors.push_back({name, *shape, reader_.dtype_of(parameter)});
        for (const Value value : {Value::first_moment, Value::second_moment}) {
            const SafetensorsTensor& moment = stored(name, value);
            if (moment.shape != parameter.shape || moment.dtype != parameter.dtype) {
                fail(shown(moment.name) + " is not as " + shown(parameter.name) + " is");
            }
        }
    }
    for (const std::string& line : lines_of(text(ties_key))) {
        const std::size_t equals = line.find(" = ");
        if (equals == std::string::npos) fail("rhizome.ties has no tie in " + shown(line));
        table_.ties.push_back({line.substr(0, equals), line.substr(equals + 3)});
    }
    if (const auto problem = problem_of(table_)) fail(shown(*problem));
    if (reader_.tensors().size() != table_.tensors.size() * all_values.size()) {
        fail("has tensors that are none of the state's");
    }
}

const SafetensorsTensor& RawFile::stored(const std::string& tensor, Value value) const {
    const SafetensorsTensor* found = reader_.find(name_in_file(tensor, value));
    if (found == nullptr) fail("has no tensor " + shown(name_in_file(tensor, value)));
    return *found;
}

}  // namespace rhizome::state
