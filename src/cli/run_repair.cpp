#include "cli/run_repair.hpp"

#include <algorithm>

#include "cli/run_layout.hpp"
#include "cli/values.hpp"
#include "core/text.hpp"
#include "plan/cut.hpp"

namespace rhizome::cli {
namespace {

double seconds_of(Nanoseconds time) { return std::chrono::duration<double>(time).count(); }

std::int32_t evaluation_microbatches(const Preparation& prepared) {
    const auto& evaluation = prepared.plan.evaluation;
    return evaluation ? evaluation->shape.lanes.microbatches : 0;
}

}  // namespace

engine::RepairConfig repair_config(const RunConfig& config, const Preparation& prepared) {
    const LayerTable& table = prepared.network.table();
    return {.facts = {.table = table,
                      .manner = {.lanes = prepared.plan.shape.lanes,
                                 .layers = plan::layer_loads(table, prepared.costs,
                                                             state_bytes_per_element(config)),
                                 .depth_min =
                                     *std::min_element(config.depths.begin(), config.depths.end()),
                                 .style = config.style,
                                 .parts = config.parts},
                      .redundancy = config.owners,
                      .link_bytes_per_s = config.pace.link_bytes_per_s},
            .costs = prepared.costs,
            .recompute = config.recompute,
            .evaluation_microbatches = evaluation_microbatches(prepared),
            .at_most = to_nanoseconds(config.bounds.repair_s)};
}

std::string time_text(Nanoseconds time) {
    const double seconds = seconds_of(time);
    return seconds < 1 ? to_short(seconds * 1e3) + " ms" : to_text_short(seconds) + " s";
}

std::string workers_text(const std::vector<WorkerId>& workers) {
    std::string text = workers.size() == 1 ? "worker " : "workers ";
    for (std::size_t i = 0; i < workers.size(); ++i) {
        if (i > 0) text += i + 1 == workers.size() ? " and " : ", ";
        text += std::to_string(workers[i].value());
    }
    return text;
}

std::string to_text(const engine::RepairRecord& record) {
    const std::string decided = "rung " + recover::name_of(record.rung) + " (" + record.reason +
                                "): on in " + time_text(record.ended - record.began);
    const std::string moved = "decided " + time_text(record.decided - record.opened) + ", moved " +
                              to_short(static_cast<double>(record.bytes_moved)) + "B " +
                              time_text(record.ended - record.decided);
    if (record.between_steps()) return "new shape, " + decided + ", " + moved;
    std::string text = record.lost.empty() ? "nobody" : workers_text(record.lost);
    text += std::string{record.lost.size() <= 1 ? " was" : " were"} + " lost, " + decided +
            ", agreed " + time_text(record.opened - record.began) + ", " + moved;
    if (record.attempts > 1) text += ", " + std::to_string(record.attempts) + " attempts";
    text += "; again " + time_text(record.again) + " of work";
    if (record.steps_again > 0) text += " and " + counted(record.steps_again, "committed step");
    return text;
}

void RepairAccount::add(const engine::RepairRecord& record) {
    if (!record.between_steps()) {
        lost_[record.rung] += static_cast<std::int32_t>(record.lost.size());
    }
    repair_s_ += seconds_of(record.ended - record.began);
    again_s_ += seconds_of(record.again);
    bytes_ += record.bytes_moved;
}

std::vector<std::pair<std::string, std::string>> RepairAccount::rows(double seconds) const {
    if (lost_.empty()) return {};
    std::string by_rung;
    std::int64_t all = 0;
    for (const auto& [rung, workers] : lost_) {
        by_rung += (by_rung.empty() ? "" : ", ") + std::to_string(workers) + " by rung " +
                   recover::name_of(rung);
        all += workers;
    }
    const double gone = repair_s_ + again_s_;
    std::vector<std::pair<std::string, std::string>> rows;
    rows.emplace_back("workers lost", std::to_string(all) + " (" + by_rung + ")");
    rows.emplace_back("time lost", to_text_short(gone) + " s: repair " + to_text_short(repair_s_) +
                                       " s, work again " + to_text_short(again_s_) + " s; " +
                                       to_short(static_cast<double>(bytes_)) + "B moved");
    if (seconds > 0) {
        rows.emplace_back("goodput", to_fixed(100 * std::max(0.0, 1 - gone / seconds), 1) +
                                         " % of the time trained what counts");
    }
    return rows;
}

}  // namespace rhizome::cli
