#include "cli/run_states.hpp"

#include <algorithm>
#include <chrono>

#include "cli/key_lines.hpp"
#include "cli/start_agreement.hpp"
#include "cli/state_places.hpp"
#include "engine/stored_values.hpp"
#include "engine/tell.hpp"

namespace rhizome::cli {
namespace {

[[noreturn]] void fail_of_loss() {
    throw UserError{ExitCode::peer_lost,
                    "a worker was lost while the state was loaded, see what it said"};
}

}  // namespace

RunIdentity identity_of(const RunConfig& config, const data::Datasets& datasets,
                        const std::string& fingerprint) {
    RunIdentity identity{
        .mathematics = mathematics_keys(config),
        .layout = layout_keys(config),
        .mathematics_digest = mathematics_digest(config, datasets.train_digest),
        .data_digest = datasets.train_digest,
        .fingerprint = fingerprint,
        .samples_per_step = std::int64_t{config.microbatches} * config.microbatch_size,
        .samples_per_pass = datasets.train->samples()};
    return identity;
}

std::vector<std::string> differences(const state::StateFacts& facts, const RunIdentity& identity) {
    std::vector<std::string> found;
    const auto there = parse_key_lines(facts.mathematics);
    const auto here = parse_key_lines(identity.mathematics);
    for (const auto& [key, value] : here) {
        const auto other = there.find(key);
        const std::string its = other == there.end() ? "not there" : other->second;
        if (its == value) continue;
        found.push_back(key);
        found.back().append(" = ").append(its).append(", here ").append(value);
    }
    for (const auto& [key, value] : there) {
        if (here.contains(key)) continue;
        found.push_back(key);
        found.back().append(" = ").append(value).append(", here unknown");
    }
    // Imported weights have seen no data of a run.
    const bool any_data = !facts.data_digest.empty();
    if (any_data && facts.data_digest != identity.data_digest)
        found.emplace_back("other training data");
    return found;
}

std::string states_folder(const std::string& run_folder) { return run_folder + "/states"; }

RunStates::RunStates(std::shared_ptr<state::FileSystem> files, RunIdentity identity,
                     const LayerTable& table, const Log& log)
    : files_{std::move(files)}, identity_{std::move(identity)}, table_{table}, log_{log} {}

RunStates::Attempt RunStates::load(engine::Worker& worker, const std::string& path) {
    Attempt attempt;
    try {
        state::StateReader reader{files_, path};
        const state::StateFacts& facts = reader.index().facts;
        if (const auto differ = differences(facts, identity_); !differ.empty()) {
            attempt.mistake = ConfigError{
                "state " + visible(path) + " (trained with " + visible(differ.front()) +
                (differ.size() > 1 ? "; and " + std::to_string(differ.size() - 1) + " more" : "") +
                "), give the same (as they are in `rhizome-state show`), or take another folder "
                "for a run of its own"};
            return attempt;
        }
        if (reader.index().table != state::stored_table_of(table_)) {
            throw state::StateError{path, "tensors", "are those of another network",
                                    "take another state"};
        }
        engine::StoredValues values{reader, table_};
        worker.load(values, facts.steps);
        const bool computed = !facts.fingerprint.empty();  // imported ones are not
        if (computed && facts.fingerprint != identity_.fingerprint &&
            world::is_first(worker.messenger().world())) {
            log_.warn("the state was made by " + visible(facts.fingerprint) +
                      ", which is not what computes here: from here on the last bits of the "
                      "weights may not be those of a run that had stayed there");
        }
        attempt.steps = facts.steps;
        history_ = facts.history;
        for (const state::Event& event : noted_) {  // after a loss: what happened since still did
            if (std::find(history_.begin(), history_.end(), event) == history_.end()) {
                history_.push_back(event);
            }
        }
    } catch (const state::StateError& error) {
        if (error.is_newer) attempt.mistake = error;
        attempt.damage = error.what();
        attempt.is_known_to_all = error.path.ends_with(state::index_name);
    } catch (const state::FileError& error) {
        attempt.damage = error.what();
    }
    return attempt;
}

RunStates::Found RunStates::load_from(engine::Worker& worker, const std::string& path) {
    const std::string from = "from=" + visible(path);
    std::optional<Place> place;
    std::optional<UserError> mistake;
    try {
        place = find_place(*files_, path);
    } catch (const UserError& error) {
        mistake = DataError{std::string{"from="} + error.what()};
    } catch (const state::FileError& error) {
        mistake = DataError{from + " (" + error.what() + "), check its name and rights"};
    }
    agree_to_start(worker, mistake);
    ENSURE(place);
    if (place->kind == Place::Kind::states) {
        const auto found = load_newest_of(worker, place->path, CleanUp::no);
        if (!found) mistake = DataError{from + " (has no states), name a run that has saved some"};
        agree_to_start(worker, mistake);
        return found.value_or(Found{});
    }
    Attempt attempt = load(worker, place->path);
    if (!attempt.damage.empty()) {
        attempt.mistake = DataError{from + " (" + attempt.damage +
                                    "), name another state, or the run for its newest whole one"};
    }
    agree_to_start(worker, attempt.mistake);
    return {place->path, attempt.steps};
}

std::optional<RunStates::Found> RunStates::load_newest(engine::Worker& worker,
                                                       const std::string& folder) {
    return load_newest_of(worker, folder, CleanUp::yes);
}

std::optional<RunStates::Found> RunStates::load_newest_again(engine::Worker& worker,
                                                             const std::string& folder) {
    return load_newest_of(worker, folder, CleanUp::no);
}

std::optional<RunStates::Found> RunStates::load_newest_of(engine::Worker& worker,
                                                          const std::string& folder,
                                                          CleanUp clean_up) {
    world::World& world = worker.messenger().world();
    std::vector<state::FoundState> states;
    std::optional<UserError> problem;
    if (world::is_first(worker.messenger().world())) {
        try {
            if (clean_up == CleanUp::yes) state::clean_up_states(*files_, folder);
            states = state::find_states(*files_, folder);
        } catch (const state::FileError& error) {
            problem = DataError{std::string{error.what()} + ", see why states cannot be listed"};
        }
    }
    agree_to_start(worker, problem);
    for (std::size_t next = 0;; ++next) {
        const bool any = next < states.size();
        const engine::Told told = engine::tell_all(worker, any ? states[next].steps : -1);
        if (told.status != CommStatus::ok) fail_of_loss();
        if (told.number < 0) {
            if (next == 0) return std::nullopt;
            const DataError damaged{"the states below " + visible(folder) +
                                    " (none is whole), see `rhizome-state verify`; move them away "
                                    "to begin anew"};
            agree_to_start(worker, std::optional<UserError>{damaged});
        }
        const std::string path = folder + "/" + state::state_name(told.number);
        const Attempt attempt = load(worker, path);
        agree_to_start(worker, attempt.mistake);
        // An index is read by all, and one of them says what is wrong with it.
        const bool says = !attempt.is_known_to_all || world::is_first(world);
        if (!attempt.damage.empty() && says) {
            log_.warn(attempt.damage + "; an older state is tried");
        }
        const auto [status, all] = worker.agree(
            attempt.damage.empty() ? engine::vote::all : engine::vote::all & ~engine::vote::well);
        if (status != CommStatus::ok) fail_of_loss();
        if ((all & engine::vote::well) != 0) return Found{path, told.number};
    }
}

void RunStates::note(std::int32_t steps, const std::string& kind, const std::string& text) {
    noted_.push_back({.time = state::utc_text(std::chrono::system_clock::now()),
                      .steps = steps,
                      .kind = kind,
                      .text = text});
    history_.push_back(noted_.back());
}

state::StateFacts RunStates::facts(std::int32_t steps) const {
    state::StateFacts facts{.steps = steps,
                            .saved_at = state::utc_text(std::chrono::system_clock::now()),
                            .program = "rhizome " RHIZOME_VERSION,
                            .mathematics = identity_.mathematics,
                            .layout = identity_.layout,
                            .mathematics_digest = identity_.mathematics_digest,
                            .data_digest = identity_.data_digest,
                            .fingerprint = identity_.fingerprint,
                            .samples = steps * identity_.samples_per_step,
                            .samples_per_pass = identity_.samples_per_pass,
                            .history = history_};
    return facts;
}

}  // namespace rhizome::cli
