#include "cli/stored_gpt.hpp"

#include <utility>

#include "cli/options.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "model/gpt.hpp"
#include "state/state_weights.hpp"

namespace rhizome::cli {
namespace {

constexpr std::string_view safetensors_ending = ".safetensors";
constexpr std::int32_t byte_values = 256;

RunConfig config_of(const std::string& path, const state::StateFacts& facts) {
    try {
        return parse_mathematics("its keys", facts.mathematics);
    } catch (const ConfigError& error) {
        throw DataError{"state " + visible(path) +
                        " (is of no network that this program knows: " + error.what() +
                        "), take the program that made it: " + visible(facts.program)};
    }
}

StoredGpt open_state(const std::shared_ptr<state::FileSystem>& files, const std::string& path) {
    auto reader = std::make_shared<state::StateReader>(files, path);
    const state::StateIndex& index = reader->index();
    const RunConfig config = config_of(path, index.facts);
    const model::Network network =
        model::make_gpt(config.model, 1, device::dtype_of(config.precision), config.chunk_elements);
    if (index.table != state::stored_table_of(network.table())) {
        throw DataError{"state " + visible(path) +
                        " (its tensors are not those of the GPT that its keys describe), take the "
                        "program that made it: " +
                        visible(index.facts.program)};
    }
    return {path, config.model, device::dtype_of(config.precision),
            config.data.format == data::Format::bytes ? TokenKind::bytes : TokenKind::numbers,
            std::make_unique<state::StateWeights>(std::move(reader))};
}

StoredGpt open_safetensors(state::FileSystem& files, const std::string& path,
                           std::optional<std::int32_t> heads) {
    constexpr std::int64_t any_chunk_elements = 65536;  // nothing here is cut into chunks
    auto file = std::make_unique<state::Gpt2File>(
        files, path,
        state::ImportOptions{.chunk_elements = any_chunk_elements, .heads = heads, .head = {}});
    const state::GptFacts& facts = file->facts();
    const model::GptConfig config{
        .blocks = facts.blocks,
        .channels = facts.channels,
        .heads = file->heads(),
        .context = facts.context,
        .vocabulary = facts.vocabulary,
        .tying = facts.head == state::Head::tied ? model::Tying::tied : model::Tying::untied,
        .dropout = 0.0};
    const model::Network network = model::make_gpt(config, 1, facts.dtype, any_chunk_elements);
    ENSURE(file->table() == state::stored_table_of(network.table()));
    const DType precision = facts.dtype;
    // The file does not say what its tokens are; nobody but byte-level networks has so few.
    return {path, config, precision,
            config.vocabulary == byte_values ? TokenKind::bytes : TokenKind::numbers,
            std::move(file)};
}

std::vector<std::string> paths_of(const std::vector<state::FoundState>& states) {
    std::vector<std::string> paths;
    for (const state::FoundState& found : states) paths.push_back(found.path);
    return paths;
}

}  // namespace

std::vector<std::string> find_stored_gpts(state::FileSystem& files, const std::string& from) {
    constexpr const char* hint =
        "), name a state, the folder of a run that has saved one, or a *.safetensors file";
    const auto kind = files.kind_of(from);
    if (!kind) throw DataError{visible(from) + " (there is nothing of that name" + hint};
    if (*kind != state::EntryKind::folder) {
        if (from.ends_with(safetensors_ending)) return {from};
        throw DataError{visible(from) + " (is no folder and no *.safetensors file" + hint};
    }
    if (files.kind_of(from + "/" + std::string{state::index_name})) return {from};
    for (const std::string& folder : {from + "/states", from}) {
        auto paths = paths_of(state::find_states(files, folder));
        if (!paths.empty()) return paths;
    }
    throw DataError{visible(from) + " (is neither a state nor a folder that has some" + hint};
}

StoredGpt open_stored_gpt(const std::shared_ptr<state::FileSystem>& files, const std::string& path,
                          std::optional<std::int32_t> heads) {
    if (path.ends_with(safetensors_ending) && files->kind_of(path) != state::EntryKind::folder) {
        return open_safetensors(*files, path, heads);
    }
    if (heads) {
        throw ConfigError{"--heads=" + std::to_string(*heads) + " (state " + visible(path) +
                          " says how many it has), leave it out"};
    }
    return open_state(files, path);
}

}  // namespace rhizome::cli
