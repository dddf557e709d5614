#include "cli/state_places.hpp"

#include <algorithm>
#include <set>

#include "core/error.hpp"

namespace rhizome::cli {
namespace {

using state::EntryKind;
using state::FileSystem;

constexpr const char* place_hint = "name a state, RUN/states/step-..., or the folder of a run";

std::string without_slashes(std::string path) {
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    return path;
}

/// A damaged one may lack its index, or have lost its name.
bool is_state(FileSystem& files, const std::string& path) {
    if (state::steps_of_name(split_path(path).second)) return true;
    if (files.kind_of(path + "/" + std::string{state::index_name})) return true;
    return files.kind_of(path + "/" + state::share_name(0)).has_value();
}

bool has_states(FileSystem& files, const std::string& path) {
    const auto entries = files.list(path);
    return std::any_of(entries.begin(), entries.end(), [](const state::Entry& entry) {
        return state::steps_of_name(entry.name) || entry.name.starts_with(".step-");
    });
}

[[noreturn]] void refuse_file(const std::string& path) {
    std::string hint = place_hint;
    if (path.ends_with(".h5")) hint = "name the folder that it is in";
    if (path.ends_with(".safetensors"))
        hint = "`rhizome-state import` makes a state of such a file";
    throw DataError{visible(path) + " (is no folder), " + hint};
}

/// The index's and the shares', in that order; the first that is not as it should be.
void check_structure(const std::shared_ptr<FileSystem>& files, const std::string& path,
                     ListedState& listed) {
    if (const auto named = state::steps_of_name(split_path(path).second)) listed.steps = *named;
    state::StateReader reader{files, path};
    const state::StateIndex& index = reader.index();
    listed.saved_at = index.facts.saved_at;
    listed.steps = index.facts.steps;
    for (const state::StoredChunk chunk : index.table.all_chunks()) (void)reader.share_of(chunk);
    // Shares without chunks have not been opened yet.
    const std::set<std::int32_t> opened{index.writer_of.begin(), index.writer_of.end()};
    for (const state::ShareFacts& facts : index.shares) {
        if (opened.contains(facts.writer)) continue;
        const std::string share = path + "/" + state::share_name(facts.writer);
        const state::ShareReader empty{*files, share, index.table};
        if (empty.facts() != facts || empty.steps() != index.facts.steps) {
            throw state::StateError{share, "header", "is not the one that the index means",
                                    "use another state"};
        }
    }
}

}  // namespace

std::optional<std::size_t> newest_whole(const std::vector<ListedState>& states) {
    for (std::size_t i = states.size(); i-- > 0;) {
        if (states[i].problem.empty()) return i;
    }
    return std::nullopt;
}

std::pair<std::string, std::string> split_path(const std::string& path) {
    const std::string bare = without_slashes(path);
    const std::size_t slash = bare.rfind('/');
    if (slash == std::string::npos) return {".", bare};
    return {slash == 0 ? "/" : bare.substr(0, slash), bare.substr(slash + 1)};
}

Place find_place(FileSystem& files, const std::string& given) {
    if (given.empty()) throw ConfigError{std::string{"`` (names nothing), "} + place_hint};
    const std::string path = without_slashes(given);
    const auto kind = files.kind_of(path);
    if (!kind) throw DataError{visible(path) + " (there is nothing of that name), " + place_hint};
    if (*kind != EntryKind::folder) refuse_file(path);
    if (is_state(files, path)) return {Place::Kind::state, path, ""};
    const std::string below = path + "/states";
    if (files.kind_of(below) == EntryKind::folder) return {Place::Kind::states, below, path};
    const auto [parent, name] = split_path(path);
    const bool is_run_above = files.kind_of(parent + "/processes") == EntryKind::folder;
    if (has_states(files, path)) {
        return {Place::Kind::states, path, is_run_above ? parent : ""};
    }
    if (name == "states") return {Place::Kind::states, path, is_run_above ? parent : ""};
    // A run that has saved nothing so far.
    if (files.kind_of(path + "/processes") == EntryKind::folder) {
        return {Place::Kind::states, below, path};
    }
    throw DataError{visible(path) + " (is neither a state nor a folder of states), " + place_hint};
}

ListedState look_at_state(const std::shared_ptr<FileSystem>& files, const std::string& path) {
    ListedState listed{.path = path};
    listed.steps = state::steps_of_name(split_path(path).second).value_or(0);
    listed.bytes = bytes_at(*files, path);
    try {
        check_structure(files, path, listed);
    } catch (const state::StateError& error) {
        const std::string name = split_path(error.path).second;
        listed.problem =
            (error.path == path ? "" : name + ": ") + error.place + ": " + error.reason;
    } catch (const state::FileError& error) {
        listed.problem = split_path(error.path()).second + ": " + error.reason();
    }
    return listed;
}

std::vector<ListedState> look_at_states(const std::shared_ptr<FileSystem>& files,
                                        const std::string& folder) {
    std::vector<state::FoundState> found = state::find_states(*files, folder);
    std::reverse(found.begin(), found.end());
    std::vector<ListedState> states;
    states.reserve(found.size());
    for (const state::FoundState& one : found) {
        try {
            states.push_back(look_at_state(files, one.path));
        } catch (const state::FileError&) {
            if (files->kind_of(one.path)) throw;  // else a run that goes on has just removed it
        }
    }
    return states;
}

std::string find_state(const std::shared_ptr<FileSystem>& files, const std::string& given,
                       const Log& log) {
    const Place place = find_place(*files, given);
    if (place.kind == Place::Kind::state) return place.path;
    const std::vector<state::FoundState> found = state::find_states(*files, place.path);
    for (const state::FoundState& newest : found) {
        const ListedState listed = look_at_state(files, newest.path);
        if (listed.problem.empty()) {
            log.info("state " + newest.path + ", the newest whole one");
            return newest.path;
        }
        log.warn("state " + newest.path + " (" + listed.problem + "), an older one is tried");
    }
    if (found.empty()) {
        throw DataError{visible(place.path) + " (there is no state in it), " + place_hint};
    }
    throw DataError{visible(place.path) +
                    " (no state in it is whole), `rhizome-state verify` says "
                    "what is damaged"};
}

std::int64_t bytes_at(FileSystem& files, const std::string& path) {
    const auto kind = files.kind_of(path);
    if (kind == EntryKind::file) return files.open(path)->bytes();
    std::int64_t bytes = 0;
    if (kind != EntryKind::folder) return bytes;
    for (const state::Entry& entry : files.list(path)) {
        const std::string inner = path + "/" + entry.name;
        if (entry.kind == EntryKind::file) bytes += files.open(inner)->bytes();
        if (entry.kind == EntryKind::folder) bytes += bytes_at(files, inner);
    }
    return bytes;
}

}  // namespace rhizome::cli
