#include "cli/state_prune.hpp"

#include <algorithm>

#include "cli/state_places.hpp"
#include "core/error.hpp"
#include "world/run_folder.hpp"

namespace rhizome::cli {
namespace {

[[noreturn]] void refuse_running(const std::string& run, const std::string& who) {
    throw ConfigError{"run folder " + visible(run) + " (the run goes on" +
                      (who.empty() ? "" : ": " + visible(who)) +
                      "), wait for its end, or `rhizome stop` it; save.keep prunes on the way"};
}

/// Its processes here, or hosts where it may be at work: nobody can look at those.
std::string who_may_live(const std::string& run) {
    const auto folder = world::RunFolder::open(run);
    std::string who;
    for (const world::Recorded& process : folder.living()) {
        who += (who.empty() ? "" : ", ") + process.name;
    }
    return who.empty() && !folder.finished() ? folder.other_hosts() : who;
}

/// A run that goes on saves and removes states itself. Holding its lock keeps others from
/// beginning.
world::RunLock lock_run(state::FileSystem& files, const std::string& run) {
    world::RunLock lock;
    if (run.empty()) return lock;
    const std::string path = run + "/lock";
    if (files.kind_of(path)) {
        std::error_code problem = lock.open(path);
        if (!problem) problem = lock.hold(world::RunLock::Kind::exclusive);
        if (!problem) return lock;
        if (world::is_taken(problem)) refuse_running(run, "");
    }
    // A folder without locks, or of an older run.
    if (!files.kind_of(run + "/processes")) return lock;
    const std::string who = who_may_live(run);
    if (!who.empty()) refuse_running(run, who);
    return lock;
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
    world::RunLock lock;
    if (removal == Removal::real) lock = lock_run(*files, place.run);
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
