// Whatever bytes a raw state in a safetensors file has (`rhizome-state export --raw`), it is
// refused in the form of the house or means one state: as a folder of state files, and exported
// again, it says the same.
#include "core/text.hpp"
#include "fuzz/safetensors_length.hpp"
#include "fuzz/target.hpp"
#include "state/fake_disk.hpp"
#include "state/raw_file.hpp"
#include "support/sample_state.hpp"

namespace rhizome::fuzz {
namespace {

using state::FakeDisk;
using state::RawFile;
using state::Value;

void check_message(const state::SafetensorsError& error) {
    const std::string message = error.what();
    ENSURE(message.starts_with("safetensors file raw (" + error.reason + "), "));
    ENSURE(visible(message) == message);
    ENSURE(message.size() < 4000);
}

std::vector<std::byte> values_of(const RawFile& file, std::int32_t tensor, Value value) {
    const state::StoredTensor& facts = file.table().tensors[static_cast<std::size_t>(tensor)];
    std::vector<std::byte> values(
        static_cast<std::size_t>(facts.shape.elements() * bytes_of(facts.dtype)));
    file.read(tensor, value, values);
    return values;
}

/// As a state in a folder, by one writer.
std::string write_state(FakeDisk& disk, const RawFile& file) {
    const state::StoredTable& table = file.table();
    const std::int32_t steps = file.facts().steps;
    std::vector<std::array<std::vector<std::byte>, state::all_values.size()>> tensors;
    for (std::size_t t = 0; t < table.tensors.size(); ++t) {
        auto& values = tensors.emplace_back();
        for (std::size_t v = 0; v < values.size(); ++v) {
            values[v] = values_of(file, static_cast<std::int32_t>(t), state::all_values[v]);
        }
    }
    std::vector<state::ChunkValues> chunks;
    for (const state::StoredChunk chunk : table.all_chunks()) {
        const auto tensor = static_cast<std::size_t>(chunk.tensor);
        const auto first = static_cast<std::size_t>(table.first_element_of(chunk) *
                                                    bytes_of(table.tensors[tensor].dtype));
        const auto bytes = static_cast<std::size_t>(table.bytes_of(chunk));
        state::ChunkValues& all = chunks.emplace_back();
        all.chunk = chunk;
        for (std::size_t v = 0; v < all.values.size(); ++v) {
            all.values[v] = std::span{tensors[tensor][v]}.subspan(first, bytes);
        }
    }
    state::begin_state(disk, "states", steps);
    write_share(disk, state::part_folder("states", steps) + "/" + state::share_name(0), table,
                steps, 0, chunks);
    return commit_state(disk, "states", file.facts(), table, 1).path;
}

void check_round_trip(const std::shared_ptr<FakeDisk>& disk, const RawFile& file) {
    state::StateReader reader{disk, write_state(*disk, file)};
    export_raw(*disk, "again", reader);
    const RawFile again{*disk, "again"};
    ENSURE(again.facts() == file.facts() && again.table() == file.table());
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(file.table().tensors.size()); ++t) {
        for (const Value value : state::all_values) {
            ENSURE(values_of(again, t, value) == values_of(file, t, value));
        }
    }
}

std::string raw_file(const state::StoredTable& table) {
    const auto disk = std::make_shared<FakeDisk>();
    state::StateReader reader{disk, state::write_sample_state(*disk, "states", 3, 1, table)};
    export_raw(*disk, "raw", reader);
    const auto bytes = disk->content("raw");
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::vector<std::string> seeds() {
    const state::StoredTable small{
        .tensors = {{"head/norm", Shape{2}, DType::f32}}, .ties = {}, .chunk_elements = 1};
    return {raw_file(small), raw_file(state::sample_table())};
}

void mend(std::string& input) { mend_header_length(input); }

}  // namespace rhizome::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rhizome;
    const auto disk = std::make_shared<state::FakeDisk>();
    const auto bytes = std::as_bytes(std::span{data, size});
    disk->set_content("raw", {bytes.begin(), bytes.end()});
    try {
        const state::RawFile file{*disk, "raw"};
        fuzz::check_round_trip(disk, file);
        fuzz::note(fuzz::Outcome::accepted);
    } catch (const state::SafetensorsError& error) {
        fuzz::check_message(error);
        fuzz::note(fuzz::Outcome::refused);
    }
    return 0;
}
