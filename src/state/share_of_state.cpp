#include "state/share_of_state.hpp"

#include "state/file_header.hpp"

namespace rhizome::state {

std::optional<std::string> why_foreign(const ShareReader& share, const StateIndex& index,
                                       std::int32_t writer) {
    if (share.steps() != index.facts.steps) {
        return "is of step " + std::to_string(share.steps()) + ", the state of step " +
               std::to_string(index.facts.steps);
    }
    if (share.facts().writer != writer) {
        return "is the share of writer " + std::to_string(share.facts().writer);
    }
    if (share.facts() != index.shares.at(static_cast<std::size_t>(writer))) {
        return "is not the one that the index means, but of another save";
    }
    return std::nullopt;
}

std::unique_ptr<ShareReader> open_share(FileSystem& files, const std::string& folder,
                                        const StateIndex& index, std::int32_t writer) {
    const std::string path = folder + "/" + share_name(writer);
    if (files.kind_of(path) != EntryKind::file) {
        throw StateError{path, "file", "is missing", damaged_hint};
    }
    auto share = std::make_unique<ShareReader>(files, path, index.table);
    if (const auto reason = why_foreign(*share, index, writer)) {
        throw StateError{path, "header", *reason, damaged_hint};
    }
    return share;
}

}  // namespace rhizome::state
