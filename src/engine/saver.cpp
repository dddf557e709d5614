#include "engine/saver.hpp"

#include <algorithm>
#include <exception>

namespace rhizome::engine {

namespace {

constexpr Nanoseconds look = std::chrono::milliseconds{5};  // between two agreements at the end

}  // namespace

Saver::Saver(Worker& worker, const LayerTable& table, Background& background, SaverConfig config,
             std::optional<std::int32_t> saved)
    : worker_{worker},
      table_{state::stored_table_of(table)},
      background_{background},
      config_{std::move(config)},
      snapshot_{make_snapshot()},
      saved_{saved} {}

std::shared_ptr<Snapshot> Saver::make_snapshot() {
    return std::make_shared<Snapshot>(worker_.state(), worker_.plan().owners,
                                      worker_.messenger().world().self(), table_);
}

bool Saver::is_first() { return world::is_first(worker_.messenger().world()); }

Votes Saver::votes() {
    if (!background_.idle()) return vote::all & ~vote::idle;
    return outcome_->problem.empty() ? vote::all : vote::all & ~vote::well;
}

CommStatus Saver::between_steps(std::int32_t steps, Votes all, Due due, Begin begin) {
    worker_.reach(engine::Phase::save);
    wanted_ = wanted_ || due == Due::yes || (all & vote::no_save) == 0;
    if (phase_ != Phase::rest && (all & vote::idle) != 0) advance(all);
    if (phase_ != Phase::rest || !wanted_ || begin == Begin::later) return CommStatus::ok;
    wanted_ = false;
    return saved_ == steps ? CommStatus::ok : start_save(steps);
}

CommStatus Saver::start_save(std::int32_t steps) {
    steps_ = steps;
    began_ = worker_.messenger().world().clock().now();
    *outcome_ = {};
    snapshot_->take(worker_.stream());
    const CommStatus status = worker_.messenger().wait(*worker_.stream().record());
    if (status != CommStatus::ok) return status;
    phase_ = Phase::beginning;
    if (is_first()) {
        start([files = config_.files, folder = config_.folder, steps](Outcome&) {
            state::begin_state(*files, folder, steps);
        });
    }
    return CommStatus::ok;
}

/// Nobody has anything under way.
void Saver::advance(Votes all) {
    if (phase_ == Phase::abandoning) {
        phase_ = Phase::rest;
    } else if ((all & vote::well) == 0) {
        fail();
    } else if (phase_ == Phase::beginning) {
        start_writing();
    } else if (phase_ == Phase::writing) {
        start_commit();
    } else {
        end();
    }
}

void Saver::start(std::function<void(Outcome&)> work) {
    background_.start([work = std::move(work), outcome = outcome_] {
        try {
            work(*outcome);
        } catch (const std::exception& error) {
            outcome->problem = error.what();
        }
    });
}

void Saver::start_writing() {
    phase_ = Phase::writing;
    const world::World& world = worker_.messenger().world();
    const auto& members = world.members();
    const auto writer = static_cast<std::int32_t>(
        std::find(members.begin(), members.end(), world.self()) - members.begin());
    start([files = config_.files,
           path = state::part_folder(config_.folder, steps_) + "/" + state::share_name(writer),
           table = table_, steps = steps_, writer, snapshot = snapshot_](Outcome& outcome) {
        outcome.share = state::write_share(*files, path, table, steps, writer, snapshot->chunks());
    });
}

void Saver::start_commit() {
    phase_ = Phase::committing;
    if (!is_first()) return;
    const auto writers = static_cast<std::int32_t>(worker_.messenger().world().members().size());
    start([files = config_.files, folder = config_.folder, facts = config_.facts(steps_),
           table = table_, keep = config_.keep, writers, steps = steps_](Outcome& outcome) {
        const auto there = state::commit_state(*files, folder, facts, table, writers);
        // The state is there. What goes wrong now takes nothing from it.
        try {
            const std::string index = there.path + "/" + std::string{state::index_name};
            for (const auto& share : state::read_index(*files, index).index.shares) {
                outcome.bytes += share.bytes;
            }
            // Those of later steps were passed over because they are damaged: they must not count,
            // or this one would be removed for them.
            auto states = state::find_states(*files, folder);
            std::erase_if(states, [steps](const auto& each) { return each.steps > steps; });
            for (const auto& old : state::to_prune(states, keep)) state::remove_state(*files, old);
        } catch (const std::exception& error) {
            outcome.prune_problem = error.what();
        }
    });
}

void Saver::end() {
    phase_ = Phase::rest;
    saved_ = steps_;
    if (!is_first()) return;
    const Nanoseconds took = worker_.messenger().world().clock().now() - began_;
    config_.on_end({.steps = steps_,
                    .path = config_.folder + "/" + state::state_name(steps_),
                    .problem = "",
                    .took = took,
                    .bytes = outcome_->bytes});
    if (!outcome_->prune_problem.empty()) config_.on_prune_problem(outcome_->prune_problem);
}

void Saver::fail() {
    const bool mine = !outcome_->problem.empty();
    if (mine || is_first()) {
        config_.on_end({.steps = steps_,
                        .path = config_.folder + "/" + state::state_name(steps_),
                        .problem = mine ? outcome_->problem : "another worker could not write",
                        .took = worker_.messenger().world().clock().now() - began_,
                        .bytes = 0});
    }
    *outcome_ = {};
    phase_ = Phase::abandoning;
    if (!is_first()) return;
    // What cannot be removed now is removed by the next save.
    start([files = config_.files, folder = config_.folder, steps = steps_](Outcome&) {
        try {
            state::abandon_state(*files, folder, steps);
        } catch (const state::FileError&) {
            return;
        }
    });
}

Saver::Notes Saver::notes() const {
    const bool under_way = phase_ != Phase::rest && phase_ != Phase::abandoning;
    return {.saved = saved_, .wanted = wanted_ || under_way};
}

void Saver::begin_epoch(const Notes& of_all) {
    saved_ = of_all.saved;
    wanted_ = of_all.wanted;
    // Work in the background may still use the old ones.
    snapshot_ = make_snapshot();
    outcome_ = std::make_shared<Outcome>();
    phase_ = Phase::abandoning;  // until nobody has anything under way
    steps_ = -1;
}

CommStatus Saver::finish(std::int32_t steps) {
    Messenger& messenger = worker_.messenger();
    wanted_ = phase_ == Phase::rest || steps_ != steps;
    Phase last = phase_;
    Nanoseconds deadline = messenger.deadline();
    while (true) {
        if (phase_ != last) deadline = messenger.deadline();
        last = phase_;
        const bool patient = messenger.world().clock().now() < deadline;
        const auto [status, all] = worker_.agree(patient ? votes() : votes() & ~vote::patient);
        if (status != CommStatus::ok) return status;
        if ((all & vote::patient) == 0) {
            config_.on_end({.steps = steps_,
                            .path = config_.folder + "/" + state::state_name(steps_),
                            .problem = "it took too long",
                            .took = messenger.world().clock().now() - began_,
                            .bytes = 0});
            return CommStatus::ok;
        }
        const CommStatus begun = between_steps(steps, all, Due::no);
        if (begun != CommStatus::ok) return begun;
        if (phase_ == Phase::rest && !wanted_) return CommStatus::ok;
        if ((all & vote::idle) == 0) messenger.world().rest(messenger.world().clock().now() + look);
    }
}

}  // namespace rhizome::engine
