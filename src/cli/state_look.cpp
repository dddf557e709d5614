#include "cli/state_look.hpp"

#include <algorithm>
#include <set>

#include "cli/state_places.hpp"
#include "cli/values.hpp"
#include "core/error.hpp"

namespace rhizome::cli {
namespace {

std::vector<Leftover> find_leftovers(state::FileSystem& files, const std::string& folder) {
    std::vector<Leftover> leftovers;
    if (!files.kind_of(folder)) return leftovers;
    for (const state::Entry& entry : files.list(folder)) {
        if (!entry.name.starts_with(".step-")) continue;
        const std::string path = folder + "/" + entry.name;
        try {
            leftovers.push_back({path, bytes_at(files, path)});
        } catch (const state::FileError&) {
            if (files.kind_of(path)) throw;  // else its save has just come to its end
        }
    }
    return leftovers;
}

std::vector<ListedTensor> list_tensors(const state::StateIndex& index) {
    std::vector<ListedTensor> tensors;
    std::size_t next = 0;
    for (const state::StoredTensor& tensor : index.table.tensors) {
        const std::int32_t chunks =
            index.table.chunks_of(static_cast<std::int32_t>(tensors.size()));
        std::set<std::int32_t> writers;
        for (std::int32_t c = 0; c < chunks; ++c) writers.insert(index.writer_of.at(next++));
        tensors.push_back({tensor, chunks, {writers.begin(), writers.end()}});
    }
    return tensors;
}

/// Place of a tensor in the table, under its own name or one that is tied to it.
std::int32_t find_tensor(const std::string& path, const state::StoredTable& table,
                         const std::string& name) {
    std::string owner = name;
    std::vector<std::string> names;
    for (const state::StoredTie& tie : table.ties) {
        names.push_back(tie.use);
        if (tie.use == name) owner = tie.owner;
    }
    for (std::size_t t = 0; t < table.tensors.size(); ++t) {
        if (table.tensors[t].name == owner) return static_cast<std::int32_t>(t);
        names.push_back(table.tensors[t].name);
    }
    const auto meant = nearest(name, names);
    throw ConfigError{"`" + shown(name) + "` (there is no such tensor in " + visible(path) + "), " +
                      (meant ? "did you mean " + *meant + "?"
                             : "`rhizome-state show " + visible(path) + "` lists them")};
}

}  // namespace

bool VerifyReport::whole() const {
    return std::all_of(states.begin(), states.end(),
                       [](const VerifiedState& each) { return each.verified.faults.empty(); });
}

ListReport list_states(const Files& files, const std::string& path) {
    const Place place = find_place(*files, path);
    if (place.kind == Place::Kind::state) {
        throw ConfigError{visible(path) +
                          " (is one state), name its folder to list all, or take `show`"};
    }
    ListReport report{.folder = place.path};
    report.states = look_at_states(files, place.path);
    report.leftovers = find_leftovers(*files, place.path);
    return report;
}

ShowReport show_state(const Files& files, const std::string& given, const Log& log) {
    const std::string path = find_state(files, given, log);
    const state::StateReader reader{files, path};
    const state::StateIndex& index = reader.index();
    const std::int64_t bytes = bytes_at(*files, path);
    return {.path = path,
            .digest = reader.digest(),
            .bytes = bytes,
            .shares = static_cast<std::int64_t>(index.shares.size()),
            .chunk_elements = index.table.chunk_elements,
            .parameters = index.table.parameters(),
            .facts = index.facts,
            .tensors = list_tensors(index),
            .ties = index.table.ties};
}

TensorReport show_tensor(const Files& files, const std::string& given, const std::string& name,
                         const Log& log) {
    constexpr std::size_t shown_max = 8;
    const std::string path = find_state(files, given, log);
    state::StateReader reader{files, path};
    const state::StoredTable& table = reader.index().table;
    const std::int32_t place = find_tensor(path, table, name);
    TensorReport report{.path = path,
                        .steps = reader.index().facts.steps,
                        .tensor = table.tensors[static_cast<std::size_t>(place)],
                        .chunks = table.chunks_of(place)};
    if (report.tensor.name != name) report.use = name;
    std::vector<std::byte> bytes;
    for (const state::Value value : state::all_values) {
        ShownValue shown_value{.value = value, .statistics = {}, .first = {}};
        for (std::int32_t c = 0; c < report.chunks; ++c) {
            bytes.resize(static_cast<std::size_t>(table.bytes_of({place, c})));
            reader.read({place, c}, value, bytes);
            shown_value.statistics.add(bytes, report.tensor.dtype);
            const auto more =
                first_values(bytes, report.tensor.dtype, shown_max - shown_value.first.size());
            shown_value.first.insert(shown_value.first.end(), more.begin(), more.end());
        }
        report.values.push_back(std::move(shown_value));
    }
    return report;
}

VerifyReport verify_states(const Files& files, const std::string& path) {
    const Place place = find_place(*files, path);
    std::vector<std::string> paths{place.path};
    if (place.kind == Place::Kind::states) {
        paths.clear();
        for (const state::FoundState& found : state::find_states(*files, place.path)) {
            paths.insert(paths.begin(), found.path);
        }
        if (paths.empty()) {
            throw DataError{visible(place.path) +
                            " (there is no state in it), name a folder that has some"};
        }
    }
    VerifyReport report;
    for (const std::string& each : paths) {
        report.states.push_back({each, state::verify_state(files, each)});
    }
    return report;
}

HistoryReport show_history(const Files& files, const std::string& given, const Log& log) {
    const std::string path = find_state(files, given, log);
    const state::StateReader reader{files, path};
    return {.path = path, .history = reader.index().facts.history};
}

}  // namespace rhizome::cli
