#include "recover/decide.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "core/text.hpp"
#include "plan/ownership.hpp"
#include "recover/place_workers.hpp"

namespace rhizome::recover {
namespace {

// Shapes whose steps differ by less are equally fast: estimates are no better.
constexpr double alike = 1.01;

std::int64_t bytes_of_chunk(const LayerTable& table, ChunkRef chunk) {
    return table.elements_of(chunk) * rhizome::bytes_of(table.at(chunk.tensor).spec.dtype);
}

std::vector<ChunkRef> chunks_of(const LayerTable& table) {
    std::vector<ChunkRef> chunks;
    for (const TensorRef tensor : table.owned()) {
        for (std::int32_t c = 0; c < table.chunks_of(tensor); ++c) chunks.push_back({tensor, c});
    }
    return chunks;
}

/// The survey, made ready for questions about chunks.
class Holdings {
  public:
    Holdings(const Survey& survey, const LayerTable& table)
        : survey_{survey}, table_{table}, chunks_{chunks_of(table)} {
        for (const Report& report : survey.reports) {
            ENSURE(report.owns.size() == chunks_.size());
            ENSURE(report.holds.size() == table.layers.size());
            steps_ = std::max(steps_, report.steps);
        }
        for (const Report& report : survey.reports) {
            // Who has been behind has nothing: it was about to load a state.
            ENSURE(report.steps == steps_ ||
                   std::find(report.owns.begin(), report.owns.end(), true) == report.owns.end());
        }
        for (const ChunkRef chunk : chunks_) {
            auto& layers = layers_.emplace_back();
            for (const TensorRef use : table.uses_of(chunk.tensor)) layers.push_back(use.layer);
        }
    }

    [[nodiscard]] std::int32_t steps() const { return steps_; }
    [[nodiscard]] const std::vector<ChunkRef>& chunks() const { return chunks_; }
    [[nodiscard]] const std::vector<Report>& reports() const { return survey_.reports; }
    /// That use a chunk.
    [[nodiscard]] const std::vector<LayerId>& layers_of(std::size_t chunk) const {
        return layers_[chunk];
    }

    [[nodiscard]] bool has_parameters(const Report& report, std::size_t chunk) const {
        return report.owns[chunk] ||
               std::any_of(layers_[chunk].begin(), layers_[chunk].end(),
                           [&](LayerId layer) { return report.holds[layer.index()]; });
    }

    /// The first chunk that nobody owns.
    [[nodiscard]] std::optional<std::size_t> orphan() const {
        for (std::size_t c = 0; c < chunks_.size(); ++c) {
            if (std::none_of(survey_.reports.begin(), survey_.reports.end(),
                             [c](const Report& report) { return report.owns[c]; })) {
                return c;
            }
        }
        return std::nullopt;
    }

    /// Who owns what among the members; the first owners are not those of any map.
    [[nodiscard]] OwnershipMap owners() const {
        OwnershipMap map;
        for (std::size_t c = 0; c < chunks_.size(); ++c) {
            OwnedChunk& owned = map.chunks.emplace_back(OwnedChunk{chunks_[c], {}});
            for (const Report& report : survey_.reports) {
                if (report.owns[c]) owned.owners.push_back(report.worker);
            }
        }
        return map;
    }

    /// Bytes of parameters that a member lacks to compute each layer.
    [[nodiscard]] std::vector<std::int64_t> lacks(const Report& report) const {
        std::vector<std::int64_t> bytes(table_.layers.size());
        for (std::size_t c = 0; c < chunks_.size(); ++c) {
            if (has_parameters(report, c)) continue;
            for (const LayerId layer : layers_[c]) {
                bytes[layer.index()] += bytes_of_chunk(table_, chunks_[c]);
            }
        }
        return bytes;
    }

  private:
    const Survey& survey_;
    const LayerTable& table_;
    std::vector<ChunkRef> chunks_;
    std::vector<std::vector<LayerId>> layers_;  // by chunk
    std::int32_t steps_ = 0;                    // committed
};

/// Puts members in the places of a candidate, whose workers are only numbers.
RunShape with_members(const RunShape& candidate, const Holdings& holdings) {
    const auto& reports = holdings.reports();
    std::vector<std::vector<std::int64_t>> lacks;  // by member, by layer
    for (const Report& report : reports) lacks.push_back(holdings.lacks(report));
    std::vector<std::vector<std::int64_t>> cost;  // by place, by member
    for (const PipelineShape& pipeline : candidate.pipelines) {
        for (const StageShape& stage : pipeline.stages) {
            cost.resize(std::max(cost.size(), stage.worker.index() + 1),
                        std::vector<std::int64_t>(reports.size()));
            for (std::size_t m = 0; m < reports.size(); ++m) {
                for (std::int32_t l = stage.layers.first; l < stage.layers.last; ++l) {
                    cost[stage.worker.index()][m] += lacks[m][static_cast<std::size_t>(l)];
                }
            }
        }
    }
    const std::vector<std::size_t> member_of = place_workers(cost);
    RunShape shape = candidate;
    shape.workers.clear();
    for (const Report& report : reports) shape.workers.push_back(report.worker);
    for (PipelineShape& pipeline : shape.pipelines) {
        for (StageShape& stage : pipeline.stages) {
            stage.worker = reports[member_of[stage.worker.index()]].worker;
        }
    }
    return shape;
}

bool computes(const RunShape& shape, WorkerId worker, const std::vector<LayerId>& any_of) {
    for (const PipelineShape& pipeline : shape.pipelines) {
        for (const StageShape& stage : pipeline.stages) {
            if (stage.worker != worker) continue;
            for (const LayerId layer : any_of) {
                if (stage.layers.contains(layer)) return true;
            }
        }
    }
    return false;
}

/// What everybody needs and does not have, each from the one who has sent least so far.
std::vector<Move> moves_to(const RunShape& shape, const OwnershipMap& owners,
                           const Holdings& holdings, const LayerTable& table) {
    std::vector<std::int64_t> sent(holdings.reports().size());
    std::vector<Move> moves;
    for (const Report& to : holdings.reports()) {
        for (std::size_t c = 0; c < owners.chunks.size(); ++c) {
            const bool owns = owners.chunks[c].is_owned_by(to.worker);
            Move move{.from = to.worker,
                      .to = to.worker,
                      .chunk = c,
                      .parameters = (owns || computes(shape, to.worker, holdings.layers_of(c))) &&
                                    !holdings.has_parameters(to, c),
                      .moments = owns && !to.owns[c]};
            if (!move.parameters && !move.moments) continue;
            std::optional<std::size_t> source;
            for (std::size_t m = 0; m < sent.size(); ++m) {
                const Report& from = holdings.reports()[m];
                const bool has =
                    move.moments ? bool{from.owns[c]} : holdings.has_parameters(from, c);
                if (has && (!source || sent[m] < sent[*source])) source = m;
            }
            ENSURE(source.has_value());
            move.from = holdings.reports()[*source].worker;
            sent[*source] += bytes_of({move}, table, owners);
            moves.push_back(move);
        }
    }
    return moves;
}

OwnershipMap owners_in(const RunShape& shape, const Holdings& holdings, const Facts& facts) {
    std::vector<plan::FailureDomain> domains;  // for all that is known here, each by itself
    for (const WorkerId worker : shape.workers) domains.emplace_back(worker.value());
    const auto all = static_cast<std::int32_t>(shape.workers.size());
    const std::int32_t redundancy = facts.redundancy == 0 ? all : facts.redundancy;
    // If there is a chunk without owner, all are loaded, whoever owned them.
    const OwnershipMap before = holdings.owners();
    return plan::assign_owners(facts.table, shape, domains, redundancy,
                               holdings.orphan() ? nullptr : &before);
}

/// Of the one who sends or receives most.
double seconds_of(const std::vector<Move>& moves, const Facts& facts, const OwnershipMap& owners) {
    if (facts.link_bytes_per_s <= 0) return 0;
    std::int64_t most = 0;
    for (const WorkerId Move::* end : {&Move::from, &Move::to}) {
        std::map<WorkerId, std::int64_t> bytes;
        for (const Move& move : moves) bytes[move.*end] += bytes_of({move}, facts.table, owners);
        for (const auto& [worker, all] : bytes) most = std::max(most, all);
    }
    return static_cast<double>(most) / facts.link_bytes_per_s;
}

/// Owners and moves for a shape of the members.
void complete(Decision& decision, const Holdings& holdings, const Facts& facts) {
    decision.steps = holdings.steps();
    decision.owners = owners_in(decision.shape, holdings, facts);
    if (!holdings.orphan()) {
        decision.moves = moves_to(decision.shape, decision.owners, holdings, facts.table);
    }
    decision.move_s = seconds_of(decision.moves, facts, decision.owners);
}

/// What is done with the members in one candidate.
Decision in_shape(const Candidate& candidate, const Holdings& holdings, const Facts& facts) {
    Decision decision{.rung = Rung::replan, .reason = candidate.name};
    decision.shape = with_members(candidate.shape, holdings);
    decision.style = candidate.style;
    decision.step_s = candidate.step_s;
    decision.rest_s = candidate.step_s;
    complete(decision, holdings, facts);
    return decision;
}

/// In the fastest shapes, the fastest first, with the fewest bytes to move; never none.
Decision replan(const std::vector<Candidate>& shapes, const Holdings& holdings,
                const Facts& facts) {
    Decision best = in_shape(shapes.front(), holdings, facts);
    for (std::size_t i = 1; i < shapes.size(); ++i) {
        if (shapes[i].step_s > alike * shapes.front().step_s) break;
        Decision decision = in_shape(shapes[i], holdings, facts);
        if (bytes_of(decision.moves, facts.table, decision.owners) <
            bytes_of(best.moves, facts.table, best.owners)) {
            best = std::move(decision);
        }
    }
    return best;
}

/// Nothing if there is nothing to keep.
std::optional<Decision> redo(const Holdings& holdings, const Survey& survey, const Facts& facts,
                             const InUse& in_use) {
    auto rest = keep_lanes(survey, in_use, facts.manner);
    if (!rest) return std::nullopt;
    const auto pipelines = static_cast<std::int64_t>(rest->shape.pipelines.size());
    Decision decision{.rung = Rung::redo,
                      .reason = std::to_string(rest->kept.size()) + " of " +
                                counted(facts.manner.lanes.lanes, "lane") +
                                " kept, the others by " + counted(pipelines, "pipeline") +
                                " that lost nobody"};
    decision.step_s = step_seconds(rest->shape, facts.manner.layers);
    decision.rest_s = rest->seconds;
    decision.shape = std::move(rest->shape);
    decision.kept = std::move(rest->kept);
    decision.style = in_use.style;
    complete(decision, holdings, facts);
    return decision;
}

}  // namespace

std::string name_of(Rung rung) {
    switch (rung) {
        case Rung::redo:
            return "2 redo";
        case Rung::replan:
            return "3 re-plan";
        case Rung::state_file:
            return "6 state file";
        case Rung::park:
            return "7 park";
    }
    ENSURE(false);
}

std::int64_t bytes_of(const std::vector<Move>& moves, const LayerTable& table,
                      const OwnershipMap& owners) {
    std::int64_t bytes = 0;
    for (const Move& move : moves) {
        const std::int64_t values = (move.parameters ? 1 : 0) + (move.moments ? 2 : 0);
        bytes += values * bytes_of_chunk(table, owners.chunks[move.chunk].chunk);
    }
    return bytes;
}

Decision decide(const Survey& survey, const Facts& facts, const InUse& in_use) {
    ENSURE(!survey.reports.empty());
    const Holdings holdings{survey, facts.table};
    const auto members = static_cast<std::int32_t>(survey.reports.size());
    const std::vector<Candidate> shapes = candidates(members, facts.manner);
    if (shapes.empty()) {
        return {.rung = Rung::park,
                .reason = "the network fits into no shape of " + counted(members, "worker")};
    }
    Decision best = replan(shapes, holdings, facts);
    if (const auto orphan = holdings.orphan()) {
        best.rung = Rung::state_file;
        const ChunkRef chunk = holdings.chunks()[*orphan];
        best.reason = "nobody is left who owns " + facts.table.name_of(chunk.tensor) + "#" +
                      std::to_string(chunk.chunk) + "; " + best.reason;
        return best;
    }
    auto shorter = redo(holdings, survey, facts, in_use);
    if (shorter && shorter->rest_s + shorter->move_s < best.rest_s + best.move_s) {
        best = *std::move(shorter);
    }
    best.reason = "every chunk has an owner left; " + best.reason;
    return best;
}

std::optional<Decision> decide_between_steps(const Survey& survey, const Facts& facts,
                                             const InUse& in_use, std::int32_t steps) {
    const Holdings holdings{survey, facts.table};
    const auto members = static_cast<std::int32_t>(survey.reports.size());
    const std::vector<Candidate> shapes = candidates(members, facts.manner);
    if (shapes.empty() || holdings.orphan()) return std::nullopt;
    Decision best = replan(shapes, holdings, facts);
    const double now_s = step_seconds(in_use.shape, facts.manner.layers);
    if (now_s <= alike * best.step_s || (now_s - best.step_s) * steps <= best.move_s) {
        return std::nullopt;
    }
    best.reason += ", where a step takes " + to_fixed(100 * best.step_s / now_s, 0) +
                   " % of the time that it takes now";
    return best;
}

}  // namespace rhizome::recover
