#include "cli/state_prune.hpp"

#include <algorithm>

#include "cli/state_places.hpp"
#include "core/error.hpp"
#include "world/run_folder.hpp"

namespace rhizome::cli {
namespace {

/// The run saves and removes states itself. Processes of other hosts cannot be looked at: without a
/// word of how the run ended they may be at work.
void refuse_running(state::FileSystem& files, const std::string& run) {
    if (run.empty() || !files.kind_of(run + "/processes")) return;
    const auto folder = world::RunFolder::open(run);
    std::string who;
    for (const world::Recorded& process : folder.living()) {
        who += (who.empty() ? "" : ", ") + process.name;
    }
    if (who.empty() && !folder.finished()) who = folder.other_hosts();
    if (who.empty()) return;
    throw ConfigError{"run folder " + visible(run) + " (the run goes on: " + visible(who) +
                      "), wait for its end, or `rhizome stop` it; save.keep prunes on the way"};
}

}  // namespace

PruneReport plan_prune(const std::vector<ListedState>& states, const state::KeepRule& rule) {
    PruneReport report{.folder = {}, .rule = rule};
    std::vector<state::FoundState> whole;
    for (const ListedState& each : states) {
        if (each.problem.empty()) whole.push_back({each.path, each.steps});
    }
    const std::vector<state::FoundState> gone = state::to_prune(whole, rule);
    for (const ListedState& each : states) {
        const bool goes = std::find(gone.begin(), gone.end(),
                                    state::FoundState{each.path, each.steps}) != gone.end();
        if (!each.problem.empty()) {
            report.damaged.push_back(each);
        } else {
            (goes ? report.removed : report.kept).push_back(each);
        }
    }
    return report;
}

PruneReport prune_states(const std::shared_ptr<state::FileSystem>& files, const std::string& path,
                         const state::KeepRule& rule, Removal removal) {
    const Place place = find_place(*files, path);
    if (place.kind == Place::Kind::state) {
        throw ConfigError{visible(path) + " (is one state), name the folder of a run"};
    }
    if (removal == Removal::real) refuse_running(*files, place.run);
    PruneReport report = plan_prune(look_at_states(files, place.path), rule);
    report.folder = place.path;
    report.dry_run = removal == Removal::told_only;
    if (report.dry_run) return report;
    for (const ListedState& each : report.removed) {
        try {
            state::remove_state(*files, {each.path, each.steps});
        } catch (const state::FileError& error) {
            throw ConfigError{visible(each.path) + " (cannot be removed: " + error.reason() +
                              "), see to the rights of its folder"};
        }
    }
    return report;
}

}  // namespace rhizome::cli
