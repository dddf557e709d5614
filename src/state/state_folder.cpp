#include "state/state_folder.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "core/text.hpp"
#include "state/file_header.hpp"
#include "state/stored_table.hpp"

namespace rhizome::state {
namespace {

constexpr std::string_view name_begin = "step-";
// Endings of hidden names: of a state that is not there yet, that a new one takes the place of,
// that is being removed.
constexpr std::string_view part_end = ".part";
constexpr std::string_view old_end = ".old";
constexpr std::string_view gone_end = ".gone";

std::string hidden(const std::string& folder, std::int32_t steps, std::string_view end) {
    return folder + "/." + state_name(steps) + std::string{end};
}

/// Of a hidden name with that ending.
std::optional<std::int32_t> steps_of_hidden(std::string_view name, std::string_view end) {
    if (!name.starts_with('.') || !name.ends_with(end)) return std::nullopt;
    name.remove_prefix(1);
    name.remove_suffix(end.size());
    return steps_of_name(name);
}

std::string parent_of(const std::string& path) {
    const std::size_t slash = path.find_last_of('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

/// A folder that outlives a loss of power, as those above it that were not there before.
void make_lasting_folder(FileSystem& files, const std::string& path) {
    std::vector<std::string> grown;  // those that get a new entry
    for (std::string at = path; !files.kind_of(at);) {
        const std::string above = parent_of(at);
        if (above == at) break;
        grown.push_back(above);
        at = above;
    }
    files.make_folder(path);
    for (const std::string& above : grown) files.sync_folder(above);
}

/// A process that died between two renames left a state under a hidden name.
void bring_back_replaced(FileSystem& files, const std::string& folder) {
    for (const Entry& entry : files.list(folder)) {
        const auto steps = steps_of_hidden(entry.name, old_end);
        if (!steps || files.kind_of(folder + "/" + state_name(*steps))) continue;
        files.rename(folder + "/" + entry.name, folder + "/" + state_name(*steps));
        files.sync_folder(folder);
    }
}

/// The index of what the shares have. Every chunk must be there once, and nothing else.
StateIndex gather(FileSystem& files, const std::string& part, const StateFacts& facts,
                  const StoredTable& table, std::int32_t writers) {
    constexpr std::int32_t nobody = -1;
    StateIndex index{.facts = facts, .table = table, .shares = {}, .writer_of = {}};
    const std::vector<StoredChunk> chunks = table.all_chunks();
    index.writer_of.assign(chunks.size(), nobody);
    for (std::int32_t writer = 0; writer < writers; ++writer) {
        const std::string path = part + "/" + share_name(writer);
        const ShareReader share{files, path, table};
        if (share.facts().writer != writer || share.steps() != facts.steps) {
            throw StateError{path, "header",
                             "is of writer " + std::to_string(share.facts().writer) + " and step " +
                                 std::to_string(share.steps()),
                             "save again"};
        }
        for (const StoredChunk chunk : share.chunks()) {
            const auto place = std::lower_bound(chunks.begin(), chunks.end(), chunk);
            std::int32_t& known = index.writer_of[static_cast<std::size_t>(place - chunks.begin())];
            if (known != nobody) {
                throw StateError{path, place_of(table, chunk),
                                 "is in " + share_name(known) + " as well", "save again"};
            }
            known = writer;
        }
        index.shares.push_back(share.facts());
    }
    const auto missing = std::find(index.writer_of.begin(), index.writer_of.end(), nobody);
    if (missing != index.writer_of.end()) {
        const auto place = static_cast<std::size_t>(missing - index.writer_of.begin());
        throw StateError{part, place_of(table, chunks[place]), "is in no share", "save again"};
    }
    return index;
}

}  // namespace

std::string state_name(std::int32_t steps) {
    ENSURE(steps >= 0);
    std::array<char, 32> name{};
    const int size = std::snprintf(name.data(), name.size(), "step-%08d", steps);
    ENSURE(size > 0 && static_cast<std::size_t>(size) < name.size());
    return name.data();
}

std::optional<std::int32_t> steps_of_name(std::string_view name) {
    if (!name.starts_with(name_begin)) return std::nullopt;
    const auto steps = parse_integer(name.substr(name_begin.size()));
    if (!steps || *steps < 0 || *steps > INT32_MAX) return std::nullopt;
    const auto found = static_cast<std::int32_t>(*steps);
    if (state_name(found) != name) return std::nullopt;  // there is one way to write it
    return found;
}

std::string part_folder(const std::string& folder, std::int32_t steps) {
    return hidden(folder, steps, part_end);
}

std::vector<FoundState> find_states(FileSystem& files, const std::string& folder) {
    std::vector<FoundState> states;
    const auto kind = files.kind_of(folder);
    if (!kind) return states;
    if (kind != EntryKind::folder) throw FileError{folder, "is no folder"};
    for (const Entry& entry : files.list(folder)) {
        const auto steps = steps_of_name(entry.name);
        if (steps && entry.kind == EntryKind::folder) {
            states.push_back({folder + "/" + entry.name, *steps});
        }
    }
    std::sort(states.begin(), states.end(),
              [](const FoundState& a, const FoundState& b) { return a.steps > b.steps; });
    return states;
}

void clean_up_states(FileSystem& files, const std::string& folder) {
    if (files.kind_of(folder) != EntryKind::folder) return;
    bring_back_replaced(files, folder);
    for (const Entry& entry : files.list(folder)) {
        if (steps_of_hidden(entry.name, part_end) || steps_of_hidden(entry.name, old_end) ||
            steps_of_hidden(entry.name, gone_end)) {
            files.remove_all(folder + "/" + entry.name);
        }
    }
}

void begin_state(FileSystem& files, const std::string& folder, std::int32_t steps) {
    clean_up_states(files, folder);
    make_lasting_folder(files, folder);
    files.make_folder(part_folder(folder, steps));
}

FoundState commit_state(FileSystem& files, const std::string& folder, const StateFacts& facts,
                        const StoredTable& table, std::int32_t writers) {
    ENSURE(writers >= 1);
    const std::string part = part_folder(folder, facts.steps);
    const FoundState state{folder + "/" + state_name(facts.steps), facts.steps};
    write_index(files, part + "/" + std::string{index_name},
                gather(files, part, facts, table, writers));
    files.sync_folder(part);
    const std::string old = hidden(folder, facts.steps, old_end);
    const bool replaces = files.kind_of(state.path).has_value();
    if (replaces) files.rename(state.path, old);
    try {
        files.rename(part, state.path);
    } catch (const FileError&) {
        if (replaces) files.rename(old, state.path);
        throw;
    }
    files.sync_folder(folder);
    if (replaces) files.remove_all(old);
    return state;
}

void abandon_state(FileSystem& files, const std::string& folder, std::int32_t steps) {
    files.remove_all(part_folder(folder, steps));
}

std::vector<FoundState> to_prune(std::span<const FoundState> states, KeepRule rule) {
    ENSURE(rule.last >= 1 && rule.every >= 0);
    std::vector<FoundState> sorted{states.begin(), states.end()};
    std::sort(sorted.begin(), sorted.end(),
              [](const FoundState& a, const FoundState& b) { return a.steps < b.steps; });
    sorted.resize(sorted.size() - std::min(sorted.size(), static_cast<std::size_t>(rule.last)));
    std::erase_if(sorted, [&](const FoundState& state) {
        return rule.every > 0 && state.steps % rule.every == 0;
    });
    return sorted;
}

void remove_state(FileSystem& files, const FoundState& state) {
    const std::string gone = hidden(parent_of(state.path), state.steps, gone_end);
    files.remove_all(gone);
    files.rename(state.path, gone);
    // Else a loss of power could bring the name back, and not what was in it.
    files.sync_folder(parent_of(state.path));
    files.remove_all(gone);
}

}  // namespace rhizome::state
