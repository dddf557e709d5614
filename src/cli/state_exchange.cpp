#include "cli/state_exchange.hpp"

#include <chrono>

#include "cli/key_lines.hpp"
#include "cli/state_write.hpp"
#include "cli/values.hpp"
#include "core/text.hpp"
#include "state/hugging_face.hpp"
#include "state/raw_file.hpp"
#include "state/state_weights.hpp"

namespace rhizome::cli {
namespace {

std::int32_t heads_of(const std::string& path, const state::StateFacts& facts) {
    constexpr std::int64_t heads_max = 65535;
    const auto keys = parse_key_lines(facts.mathematics);
    const auto key = keys.find("model.heads");
    const auto heads = key == keys.end() ? std::nullopt : parse_integer(key->second);
    if (!heads || *heads < 1 || *heads > heads_max) {
        throw DataError{"state " + visible(path) +
                        " (does not say how many attention heads there are), export it with --raw"};
    }
    return static_cast<std::int32_t>(*heads);
}

void write_export(state::FileSystem& files, const std::string& to,
                  const std::shared_ptr<state::StateReader>& reader, ExportForm form) {
    const state::StateIndex& index = reader->index();
    if (form == ExportForm::raw) return state::export_raw(files, to, *reader);
    state::StateWeights weights{reader};
    state::export_gpt2(files, to, index.table, heads_of(reader->path(), index.facts), weights,
                       state::metadata_of(index.facts), state::Existing::keep);
}

void remove_if_possible(state::FileSystem& files, const std::string& path) {
    try {
        files.remove_all(path);
    } catch (const state::FileError&) {
        return;  // what hinders this hindered the writing, and that is told
    }
}

/// All values of a tensor that `read` gives.
template <class Read>
std::vector<std::byte> tensor_bytes(const state::StoredTensor& tensor, Read read) {
    std::vector<std::byte> bytes(
        static_cast<std::size_t>(tensor.shape.elements() * bytes_of(tensor.dtype)));
    read(std::span{bytes});
    return bytes;
}

struct Imported {
    state::StateFacts facts;
    state::StoredTable table;
    std::vector<TensorValues> tensors;
    std::string what;
};

Imported read_raw(state::FileSystem& files, const std::string& from) {
    const state::RawFile file{files, from};
    Imported imported{file.facts(), file.table(), {}, "state, all of it"};
    for (std::size_t t = 0; t < imported.table.tensors.size(); ++t) {
        TensorValues& values = imported.tensors.emplace_back();
        for (std::size_t v = 0; v < values.size(); ++v) {
            values[v] = tensor_bytes(imported.table.tensors[t], [&](std::span<std::byte> to) {
                file.read(static_cast<std::int32_t>(t), state::all_values[v], to);
            });
        }
    }
    return imported;
}

/// A key that somebody gave must say what the file says; else the file's word is taken.
class ModelKeys {
  public:
    ModelKeys(const std::string& from, const GivenConfig& given) : from_{from}, given_{given} {}

    template <class T>
    void set(const std::string& key, T& target, T files, const std::string& text) const {
        const auto place = given_.places.find(key);
        if (place != given_.places.end() && target != files) {
            throw ConfigError{place->second + " (" + visible(from_) + " has " + key + " = " + text +
                              "), leave it out or give the same"};
        }
        target = files;
    }
    void set(const std::string& key, std::int32_t& target, std::int32_t files) const {
        set(key, target, files, std::to_string(files));
    }

  private:
    const std::string& from_;
    const GivenConfig& given_;
};

/// The file's shapes fill in what nobody gave. Throws ConfigError where they say otherwise.
RunConfig config_with_shapes(const std::string& from, const GivenConfig& given,
                             const state::Gpt2File& file) {
    RunConfig config = given.config;
    const state::GptFacts& facts = file.facts();
    const ModelKeys keys{from, given};
    const bool tied = facts.head == state::Head::tied;
    keys.set("model.blocks", config.model.blocks, facts.blocks);
    keys.set("model.channels", config.model.channels, facts.channels);
    keys.set("model.context", config.model.context, facts.context);
    keys.set("model.vocabulary", config.model.vocabulary, facts.vocabulary);
    keys.set("model.heads", config.model.heads, file.heads());
    keys.set("model.tied", config.model.tying, tied ? model::Tying::tied : model::Tying::untied,
             tied ? "true" : "false");
    if (device::dtype_of(config.precision) != facts.dtype) {
        const bool wide = facts.dtype == DType::f64;
        keys.set("precision", config.precision,
                 wide ? device::Precision::fp64 : device::Precision::fp32, wide ? "fp64" : "fp32");
    }
    // The file does not say what its tokens are; nobody but byte-level networks has so few.
    constexpr std::int32_t byte_values = 256;
    if (!given.places.contains("data.format") && facts.vocabulary != byte_values) {
        config.data.format = data::Format::tokens;
    }
    refuse_conflicts(config, given.places);
    return config;
}

Imported read_gpt2(state::FileSystem& files, const std::string& from,
                   const std::map<std::string, std::string>& metadata,
                   const ImportSources& sources) {
    const auto said = metadata.find(state::mathematics_key);
    const GivenConfig given = parse_given_config(
        {"metadata of " + shown(from), said == metadata.end() ? "" : said->second}, sources.flags,
        sources.environment, sources.read_file);
    state::ImportOptions options{.chunk_elements = given.config.chunk_elements};
    if (given.places.contains("model.heads")) options.heads = given.config.model.heads;
    if (given.places.contains("model.tied")) {
        options.head = given.config.model.tying == model::Tying::tied ? state::Head::tied
                                                                      : state::Head::untied;
    }
    state::Gpt2File file{files, from, options};
    const RunConfig config = config_with_shapes(from, given, file);
    const std::string now = state::utc_text(std::chrono::system_clock::now());
    Imported imported{.facts = {.steps = 0,
                                .saved_at = now,
                                .program = "rhizome " RHIZOME_VERSION,
                                .mathematics = mathematics_keys(config),
                                .history = {{.time = now,
                                             .steps = 0,
                                             .kind = "imported",
                                             .text = "weights of " + from + ", moments zero"}}},
                      .table = file.table(),
                      .tensors = {},
                      .what = "state of these weights"};
    for (std::size_t t = 0; t < imported.table.tensors.size(); ++t) {
        TensorValues& values = imported.tensors.emplace_back();
        values[0] = tensor_bytes(imported.table.tensors[t], [&](std::span<std::byte> to) {
            file.read(static_cast<std::int32_t>(t), to);
        });
    }
    return imported;
}

Imported read_import(state::FileSystem& files, const std::string& from,
                     const ImportSources& sources) {
    const auto metadata = state::SafetensorsReader{files, from}.metadata();
    if (!state::is_raw(metadata)) return read_gpt2(files, from, metadata, sources);
    if (!sources.flags.empty()) {
        throw ConfigError{shown(sources.flags.front()) + " (" + visible(from) +
                          " holds a whole state with all its keys), leave it out"};
    }
    return read_raw(files, from);
}

}  // namespace

WrittenReport export_state(const std::shared_ptr<state::FileSystem>& files, const std::string& from,
                           const std::string& to, ExportForm form) {
    check_target(*files, to);
    const auto reader = std::make_shared<state::StateReader>(files, from);
    const state::StateIndex& index = reader->index();
    try {
        write_export(*files, to, reader, form);
    } catch (const state::FileError& error) {
        if (error.path().starts_with(from)) throw;
        // There was none before; one that somebody else has made since is not ours.
        if (error.code() != std::errc::file_exists) remove_if_possible(*files, to);
        throw ConfigError{visible(to) + " (cannot be written: " + visible(error.reason()) +
                          "), see to its folder, or name another place"};
    }
    const std::int64_t bytes = written_bytes(*files, to);
    return {.from = from,
            .to = to,
            .steps = index.facts.steps,
            .parameters = index.table.parameters(),
            .bytes = bytes,
            .what = form == ExportForm::raw ? "state, all of it" : "weights, as GPT-2 has them"};
}

WrittenReport import_state(const std::shared_ptr<state::FileSystem>& files, const std::string& from,
                           const std::string& to, const ImportSources& sources) {
    check_target(*files, to);
    const Imported imported = read_import(*files, from, sources);
    write_state(*files, to, imported.facts, imported.table, imported.tensors);
    const std::int64_t bytes = written_bytes(*files, to);
    return {.from = from,
            .to = to,
            .steps = imported.facts.steps,
            .parameters = imported.table.parameters(),
            .bytes = bytes,
            .what = imported.what};
}

}  // namespace rhizome::cli
