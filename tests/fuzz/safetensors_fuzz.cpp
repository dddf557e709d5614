// Whatever bytes a safetensors file has, it is refused in the form of the house or means one thing:
// what it says fills it exactly, can be read, and is the same after it was written again. The same
// for a GPT-2 in it.
#include <cstring>
#include <map>

#include "core/text.hpp"
#include "fuzz/safetensors_length.hpp"
#include "fuzz/target.hpp"
#include "state/hugging_face.hpp"
#include "support/memory_files.hpp"

namespace rhizome::fuzz {
namespace {

using tests::MemoryFiles;

void check_message(const state::SafetensorsError& error) {
    const std::string message = error.what();
    ENSURE(message.starts_with("safetensors file m (" + error.reason + "), "));
    ENSURE(visible(message) == message);
    ENSURE(message.size() < 2000);
}

/// All that can be read. Nothing for types that are not read here, which is said.
std::vector<std::byte> values_of(const state::SafetensorsReader& reader,
                                 const state::SafetensorsTensor& tensor) {
    std::vector<std::byte> values(static_cast<std::size_t>(tensor.bytes));
    try {
        reader.read(tensor, values);
    } catch (const state::SafetensorsError& error) {
        check_message(error);
        values.clear();
    }
    return values;
}

/// Each byte behind the header belongs to one tensor.
void check_filled(const state::SafetensorsReader& reader, std::int64_t size) {
    if (reader.tensors().empty()) return;
    std::int64_t end = reader.tensors().front().offset;
    for (const state::SafetensorsTensor& tensor : reader.tensors()) {
        ENSURE(tensor.offset == end && tensor.bytes >= 0);
        end += tensor.bytes;
    }
    ENSURE(end == size);
}

/// Writes everything again and reads that, if all types can be written.
void check_round_trip(const state::SafetensorsReader& reader) {
    std::vector<state::SafetensorsSpec> specs;
    for (const state::SafetensorsTensor& tensor : reader.tensors()) {
        if (tensor.dtype != "F32" && tensor.dtype != "F64") return;
        specs.push_back({tensor.name, tensor.shape, reader.dtype_of(tensor)});
    }
    MemoryFiles files;
    state::SafetensorsWriter writer{files, "again", specs, reader.metadata(),
                                    state::Existing::keep};
    for (std::size_t i = 0; i < specs.size(); ++i) {
        writer.write(i, values_of(reader, reader.tensors()[i]));
    }
    writer.commit();
    const state::SafetensorsReader again{files, "again"};
    ENSURE(again.metadata() == reader.metadata());
    ENSURE(again.tensors().size() == specs.size());
    for (const state::SafetensorsTensor& tensor : reader.tensors()) {
        const state::SafetensorsTensor* const other = again.find(tensor.name);
        ENSURE(other != nullptr && other->shape == tensor.shape && other->dtype == tensor.dtype);
        ENSURE(values_of(again, *other) == values_of(reader, tensor));
    }
}

void check_gpt2(MemoryFiles& files) {
    try {
        state::Gpt2File file{files, "m", {.chunk_elements = 50}};
        export_gpt2(files, "exported", file.table(), file.heads(), file, file.metadata(),
                    state::Existing::keep);
        const state::Gpt2File again{files, "exported", {.chunk_elements = 50}};
        ENSURE(again.facts() == file.facts() && again.heads() == file.heads());
    } catch (const state::SafetensorsError& error) {
        check_message(error);
    }
}

/// Small and different in every element.
class Counting final : public state::TensorSource {
  public:
    void read(std::int32_t tensor, std::span<std::byte> to) override {
        for (std::size_t i = 0; i < to.size(); ++i) {
            to[i] = std::byte(static_cast<std::uint8_t>(i * 7 + static_cast<std::size_t>(tensor)));
        }
    }
};

std::string gpt2(state::Head head) {
    MemoryFiles files;
    const state::GptFacts facts{.blocks = 1,
                                .channels = 2,
                                .context = 2,
                                .vocabulary = 3,
                                .head = head,
                                .dtype = DType::f32};
    Counting source;
    state::export_gpt2(files, "m", state::gpt_table(facts, 50), 1, source, {},
                       state::Existing::keep);
    return files.get("m");
}

std::string file_of(const std::string& header, std::size_t data_bytes) {
    const std::uint64_t length = header.size();
    std::string content(sizeof length, '\0');
    std::memcpy(content.data(), &length, sizeof length);
    return content + header + std::string(data_bytes, 'v');
}

}  // namespace

std::vector<std::string> seeds() {
    return {file_of("{}", 0),
            file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8),
            file_of(R"({"__metadata__":{"format":"pt","k":"v \" \\ \u00e9"},)"
                    R"("b":{"dtype":"F64","shape":[],"data_offsets":[0,8]},)"
                    R"("none":{"dtype":"F32","shape":[0,3],"data_offsets":[8,8]},)"
                    R"("half":{"dtype":"BF16","shape":[1,2],"data_offsets":[8,12]}}   )",
                    12),
            gpt2(state::Head::tied), gpt2(state::Head::untied)};
}

void mend(std::string& input) { mend_header_length(input); }

}  // namespace rhizome::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rhizome;
    tests::MemoryFiles files;
    files.put("m", {reinterpret_cast<const char*>(data), size});
    try {
        const state::SafetensorsReader reader{files, "m"};
        fuzz::check_filled(reader, static_cast<std::int64_t>(size));
        fuzz::check_round_trip(reader);
        for (const auto& tensor : reader.tensors()) (void)fuzz::values_of(reader, tensor);
        fuzz::check_gpt2(files);
        fuzz::note(fuzz::Outcome::accepted);
    } catch (const state::SafetensorsError& error) {
        fuzz::check_message(error);
        fuzz::note(fuzz::Outcome::refused);
    }
    return 0;
}
