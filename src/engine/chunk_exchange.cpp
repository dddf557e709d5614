#include "engine/chunk_exchange.hpp"

#include <algorithm>

namespace rhizome::engine {

using device::Tensor;
using schedule::Instruction;
using schedule::Kind;

namespace {

/// Does the worker compute with a tensor that is owned there or tied to it?
bool holds(const LayerTable& table, const RunShape& shape, WorkerId worker, TensorRef owned) {
    const std::vector<TensorRef> uses = table.uses_of(owned);
    for (const PipelineShape& pipeline : shape.pipelines) {
        for (const StageShape& stage : pipeline.stages) {
            if (stage.worker != worker) continue;
            if (std::any_of(uses.begin(), uses.end(),
                            [&](TensorRef use) { return stage.layers.contains(use.layer); })) {
                return true;
            }
        }
    }
    return false;
}

bool is_exchange(Kind kind) {
    return schedule::is_sum(kind) || kind == Kind::send_parameters ||
           kind == Kind::receive_parameters;
}

DType dtype_of(const LayerTable& table, ChunkRef chunk) {
    return table.at(chunk.tensor).spec.dtype;
}

Tensor chunk_of(const LayerTable& table, const model::TensorSet& set, TensorRef use,
                ChunkRef chunk) {
    return set.at(use).slice(table.first_element_of(chunk), table.elements_of(chunk));
}

}  // namespace

ChunkExchange::Key ChunkExchange::key_of(const Instruction& what) {
    return {what.kind, what.stage, what.lanes, what.peer};
}

std::vector<ChunkExchange::Piece> ChunkExchange::pieces_of(const LayerTable& table,
                                                           const RunShape& shape,
                                                           const OwnershipMap& owners,
                                                           WorkerId self, const Instruction& what) {
    ENSURE(what.peer.has_value());
    const bool sends = schedule::is_send(what.kind);
    const WorkerId from = sends ? self : *what.peer;
    const WorkerId to = sends ? *what.peer : self;
    std::vector<Piece> pieces;
    if (!schedule::is_sum(what.kind)) {
        for (const OwnedChunk& each : owners.chunks) {
            const TensorRef tensor = each.chunk.tensor;
            if (each.owners.front() == from && !each.is_owned_by(to) &&
                holds(table, shape, to, tensor)) {
                pieces.push_back({tensor, each.chunk});
            }
        }
        return pieces;
    }
    const auto pipeline = shape.pipeline_of(from);
    ENSURE(pipeline.has_value());
    const LayerRange layers = shape.pipelines[pipeline->index()].stages[what.stage.index()].layers;
    for (std::int32_t layer = layers.first; layer < layers.last; ++layer) {
        const auto& parameters = table.layers[static_cast<std::size_t>(layer)].parameters;
        for (std::int32_t i = 0; i < static_cast<std::int32_t>(parameters.size()); ++i) {
            const TensorRef use{LayerId{layer}, i};
            const TensorRef owned = table.owner_of(use);
            auto each = std::lower_bound(
                owners.chunks.begin(), owners.chunks.end(), ChunkRef{owned, 0},
                [](const OwnedChunk& chunk, const ChunkRef& ref) { return chunk.chunk < ref; });
            for (; each != owners.chunks.end() && each->chunk.tensor == owned; ++each) {
                if (each->is_owned_by(to)) pieces.push_back({use, each->chunk});
            }
        }
    }
    return pieces;
}

ChunkExchange::ChunkExchange(device::Device& device, const LayerTable& table, const RunShape& shape,
                             const OwnershipMap& owners, WorkerId self, const WorkerState& state,
                             const std::vector<Instruction>& program)
    : table_{table}, state_{state}, lanes_{shape.lanes.lanes} {
    for (const Instruction& what : program) {
        if (!is_exchange(what.kind)) continue;
        add_bundle(device, pieces_of(table, shape, owners, self, what), what);
    }
    for (const OwnedState& owned : state.owned()) plan_sum(shape, self, owned);
}

std::int64_t ChunkExchange::planned_bytes(const LayerTable& table, const RunShape& shape,
                                          const OwnershipMap& owners, WorkerId self,
                                          const std::vector<Instruction>& program) {
    std::int64_t bytes = 0;
    for (const Instruction& what : program) {
        if (!is_exchange(what.kind)) continue;
        for (const Piece& piece : pieces_of(table, shape, owners, self, what)) {
            bytes += table.elements_of(piece.chunk) * bytes_of(dtype_of(table, piece.chunk));
        }
    }
    return bytes;
}

void ChunkExchange::add_bundle(device::Device& device, std::vector<Piece> pieces,
                               const Instruction& what) {
    ENSURE(!pieces.empty());
    const DType dtype = dtype_of(table_, pieces.front().chunk);
    std::int64_t elements = 0;
    for (const Piece& piece : pieces) elements += table_.elements_of(piece.chunk);
    Bundle bundle;
    bundle.memory = device.allocate(elements * bytes_of(dtype));
    bundle.whole = bundle.memory.at(0, {"bundle", Shape{elements}, dtype});
    std::int64_t next = 0;
    for (Piece& piece : pieces) {
        piece.tensor = bundle.whole.slice(next, table_.elements_of(piece.chunk));
        next += piece.tensor.elements();
    }
    bundle.pieces = std::move(pieces);
    ENSURE(bundles_.emplace(key_of(what), std::move(bundle)).second);
}

void ChunkExchange::plan_sum(const RunShape& shape, WorkerId self, const OwnedState& owned) {
    ChunkSum sum{.chunk = owned.chunk, .uses = {}, .gradient = {}};
    for (const TensorRef use : table_.uses_of(owned.chunk.tensor)) {
        UseSum of_use{.use = use, .leaves = {}};
        for (const PipelineShape& pipeline : shape.pipelines) {
            const auto stage = std::find_if(
                pipeline.stages.begin(), pipeline.stages.end(),
                [&](const StageShape& each) { return each.layers.contains(use.layer); });
            ENSURE(stage != pipeline.stages.end());
            const StageId id{static_cast<std::int32_t>(stage - pipeline.stages.begin())};
            for (const LaneRange lanes : complete_subtrees(lanes_, pipeline.lanes)) {
                Leaf leaf{.lanes = lanes, .stage = {}, .received = {}};
                if (stage->worker == self) {
                    leaf.stage = id;
                } else {
                    const auto bundle =
                        bundles_.find({Kind::receive_sum, id, lanes, stage->worker});
                    ENSURE(bundle != bundles_.end());
                    const auto& pieces = bundle->second.pieces;
                    const auto piece = std::lower_bound(
                        pieces.begin(), pieces.end(), std::pair{use, owned.chunk},
                        [](const Piece& each, const std::pair<TensorRef, ChunkRef>& wanted) {
                            return std::pair{each.use, each.chunk} < wanted;
                        });
                    ENSURE(piece != pieces.end() && piece->use == use &&
                           piece->chunk == owned.chunk);
                    leaf.received = piece->tensor;
                }
                of_use.leaves.push_back(leaf);
            }
        }
        sum.uses.push_back(std::move(of_use));
    }
    sums_.push_back(std::move(sum));
}

Tensor ChunkExchange::bundle_of(const Instruction& what) const {
    return bundles_.at(key_of(what)).whole;
}

void ChunkExchange::pack(device::Stream& stream, const Instruction& what, const LocalSum& local) {
    for (const Piece& piece : bundles_.at(key_of(what)).pieces) {
        if (schedule::is_sum(what.kind)) {
            stream.copy(piece.tensor,
                        chunk_of(table_, local(what.stage, what.lanes), piece.use, piece.chunk));
            continue;
        }
        const OwnedState* const state = state_.find_owned(piece.chunk);
        ENSURE(state != nullptr);
        stream.copy(piece.tensor, state->parameter);
    }
}

void ChunkExchange::unpack(device::Stream& stream, const Instruction& what) {
    for (const Piece& piece : bundles_.at(key_of(what)).pieces) {
        const auto held = state_.held(piece.chunk);
        ENSURE(held.has_value());
        stream.copy(*held, piece.tensor);
    }
}

Tensor ChunkExchange::add_tree(device::Stream& stream, const UseSum& sum, ChunkRef chunk,
                               LaneRange lanes, const LocalSum& local) const {
    const auto leaf = std::find_if(sum.leaves.begin(), sum.leaves.end(),
                                   [&](const Leaf& each) { return each.lanes == lanes; });
    if (leaf != sum.leaves.end()) {
        return leaf->stage ? chunk_of(table_, local(*leaf->stage, lanes), sum.use, chunk)
                           : leaf->received;
    }
    ENSURE(lanes.size() > 1);
    const std::int32_t middle = tree_split(lanes);
    const Tensor left = add_tree(stream, sum, chunk, {lanes.first, middle}, local);
    const Tensor right = add_tree(stream, sum, chunk, {middle, lanes.last}, local);
    stream.add(left, left, right);
    return left;
}

void ChunkExchange::add_up(device::Stream& stream, const LocalSum& local) {
    for (ChunkSum& sum : sums_) {
        for (const UseSum& use : sum.uses) {
            const Tensor gradient = add_tree(stream, use, sum.chunk, {0, lanes_}, local);
            if (&use == &sum.uses.front()) {
                sum.gradient = gradient;
            } else {
                stream.add(sum.gradient, sum.gradient, gradient);
            }
        }
    }
}

void ChunkExchange::squares(device::Stream& stream, std::span<const std::size_t> chunks,
                            Tensor to) {
    const auto& owned = state_.owned();
    std::vector<Tensor> gradients;
    std::size_t at = 0;
    for (const std::size_t chunk : chunks) {
        while (owned[at].place != chunk) ++at;  // both ascend
        gradients.push_back(sums_[at].gradient);
    }
    stream.sums_of_squares(to, gradients);
}

void ChunkExchange::update(device::Stream& stream, const model::OptimizerConfig& optimizer,
                           Step step, double norm) {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
        const OwnedState& owned = state_.owned()[i];
        const Decay decay = table_.at(owned.chunk.tensor).decay;
        stream.begin({.part = device::Work::Part::update, .elements = owned.parameter.elements()});
        stream.adamw(owned.parameter, owned.first_moment, owned.second_moment, sums_[i].gradient,
                     model::adamw_step(optimizer, step, norm, decay));
    }
    stream.begin({});
}

}  // namespace rhizome::engine
