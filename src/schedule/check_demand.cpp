#include <algorithm>

#include "schedule/check_private.hpp"

namespace rhizome::schedule {
namespace {

using Places = std::vector<std::size_t>;

void make_set(Places& places) {
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
}

bool contains(const Places& set, std::size_t place) {
    return std::binary_search(set.begin(), set.end(), place);
}

/// By layer and tensor; empty where a tensor is owned elsewhere.
template <class T>
using ByTensor = std::vector<std::vector<T>>;

template <class T>
ByTensor<T> by_tensor(const LayerTable& table) {
    ByTensor<T> result;
    for (const LayerFacts& layer : table.layers) result.emplace_back(layer.parameters.size());
    return result;
}

template <class T>
T& at(ByTensor<T>& values, TensorRef tensor) {
    return values[tensor.layer.index()][static_cast<std::size_t>(tensor.tensor)];
}

/// Calls with the owned tensor behind every use in those layers.
template <class Visit>
void for_each_use(const LayerTable& table, LayerRange layers, Visit visit) {
    for (std::int32_t layer = layers.first; layer < layers.last; ++layer) {
        const std::size_t count = table.layers[LayerId{layer}.index()].parameters.size();
        for (std::size_t tensor = 0; tensor < count; ++tensor) {
            visit(table.owner_of({LayerId{layer}, static_cast<std::int32_t>(tensor)}));
        }
    }
}

/// Receivers and first owners of every stage.
void add_receivers(const RunShape& shape, const LayerTable& table, const OwnershipMap& owners,
                   Demand& demand) {
    auto owners_of = by_tensor<Places>(table);
    auto first_owners_of = by_tensor<Places>(table);
    for (const OwnedChunk& chunk : owners.chunks) {
        const TensorRef tensor = chunk.chunk.tensor;
        at(first_owners_of, tensor).push_back(shape.place_of(chunk.owners.front()));
        for (const WorkerId owner : chunk.owners) {
            at(owners_of, tensor).push_back(shape.place_of(owner));
        }
    }
    for (auto* of_tensors : {&owners_of, &first_owners_of}) {
        for (auto& layer : *of_tensors) std::for_each(layer.begin(), layer.end(), make_set);
    }
    for (std::size_t p = 0; p < demand.pipelines.size(); ++p) {
        for (std::size_t s = 0; s < demand.pipelines[p].stages.size(); ++s) {
            StageDemand& stage = demand.pipelines[p].stages[s];
            for_each_use(table, shape.pipelines[p].stages[s].layers, [&](TensorRef owned) {
                const Places& all = at(owners_of, owned);
                const Places& first = at(first_owners_of, owned);
                stage.receivers.insert(stage.receivers.end(), all.begin(), all.end());
                stage.first_owners.insert(stage.first_owners.end(), first.begin(), first.end());
            });
            make_set(stage.receivers);
            make_set(stage.first_owners);
            std::erase(stage.receivers, stage.worker);
        }
    }
}

void add_sums(Demand& demand) {
    std::size_t next = demand.first_sum;
    for (std::size_t p = 0; p < demand.pipelines.size(); ++p) {
        PipelineDemand& pipeline = demand.pipelines[p];
        for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
            pipeline.stages[s].first_sum = next;
            for (const std::size_t receiver : pipeline.stages[s].receivers) {
                demand.workers[receiver].sums.push_back({p, s, next});
                next += pipeline.subtrees.size();
            }
        }
    }
    demand.first_parts = next;
}

void add_parameters(const RunShape& shape, const LayerTable& table, const OwnershipMap& owners,
                    Demand& demand) {
    auto holders_of = by_tensor<Places>(table);
    for (std::size_t p = 0; p < demand.pipelines.size(); ++p) {
        for (std::size_t s = 0; s < demand.pipelines[p].stages.size(); ++s) {
            const std::size_t worker = demand.pipelines[p].stages[s].worker;
            for_each_use(table, shape.pipelines[p].stages[s].layers,
                         [&](TensorRef owned) { at(holders_of, owned).push_back(worker); });
        }
    }
    for (auto& layer : holders_of) std::for_each(layer.begin(), layer.end(), make_set);
    Places places;
    for (const OwnedChunk& chunk : owners.chunks) {
        places.clear();
        for (const WorkerId owner : chunk.owners) places.push_back(shape.place_of(owner));
        const std::size_t first = places.front();
        make_set(places);
        for (const std::size_t holder : at(holders_of, chunk.chunk.tensor)) {
            if (!contains(places, holder)) demand.parameters.push_back({first, holder});
        }
    }
    std::sort(demand.parameters.begin(), demand.parameters.end());
    demand.parameters.erase(std::unique(demand.parameters.begin(), demand.parameters.end()),
                            demand.parameters.end());
}

void add_stages(const Schedule& schedule, Demand& demand) {
    const RunShape& shape = schedule.shape;
    demand.workers.resize(shape.workers.size());
    for (std::size_t p = 0; p < shape.pipelines.size(); ++p) {
        const PipelineShape& from = shape.pipelines[p];
        const PipelineId id{static_cast<std::int32_t>(p)};
        PipelineDemand pipeline{.first_microbatch = shape.first_microbatch(id),
                                .last_microbatch = shape.last_microbatch(id),
                                .lanes = from.lanes,
                                .subtrees = complete_subtrees(shape.lanes.lanes, from.lanes),
                                .stages = {}};
        for (std::size_t s = 0; s < from.stages.size(); ++s) {
            const std::size_t worker = shape.place_of(from.stages[s].worker);
            demand.workers[worker].pipeline = p;
            demand.workers[worker].stages.push_back(s);
            pipeline.stages.push_back({.worker = worker,
                                       .first_work = demand.works,
                                       .first_lane = demand.lanes,
                                       .first_sum = 0,
                                       .receivers = {},
                                       .first_owners = {}});
            demand.works += static_cast<std::size_t>(pipeline.last_microbatch) -
                            static_cast<std::size_t>(pipeline.first_microbatch);
            for (const Lane lane : schedule.kept) {
                if (lane.value() < from.lanes.first || from.lanes.last <= lane.value()) continue;
                demand.works_kept += static_cast<std::size_t>(shape.lanes.length());
            }
            demand.lanes += static_cast<std::size_t>(from.lanes.size());
        }
        demand.pipelines.push_back(std::move(pipeline));
    }
}

Fault find_fault_of_table(const LayerTable& table) {
    if (table.chunk_elements <= 0) return "the table's chunks have no elements";
    for (std::size_t layer = 0; layer < table.layers.size(); ++layer) {
        for (const ParameterFacts& facts : table.layers[layer].parameters) {
            const std::string name = table.layers[layer].name + "/" + facts.spec.name;
            if ((facts.spec.shape.elements() - 1) / table.chunk_elements >=
                LayerTable::chunks_max) {
                return name + " has too many chunks";
            }
            if (!facts.tied_to) continue;
            const std::size_t owner = facts.tied_to->layer.index();
            const std::int32_t tensor = facts.tied_to->tensor;
            if (owner >= table.layers.size() || tensor < 0 ||
                static_cast<std::size_t>(tensor) >= table.layers[owner].parameters.size() ||
                table.at(*facts.tied_to).tied_to) {
                return name + " is tied to a tensor that is not owned";
            }
        }
    }
    return std::nullopt;
}

Fault find_fault_of_chunk(const RunShape& shape, std::vector<WorkerId> owners) {
    if (owners.empty()) return "has no owner";
    std::sort(owners.begin(), owners.end());
    const auto twice = std::adjacent_find(owners.begin(), owners.end());
    if (twice != owners.end()) {
        return "is owned by worker " + std::to_string(twice->value()) + " twice";
    }
    for (const WorkerId owner : owners) {
        if (std::binary_search(shape.workers.begin(), shape.workers.end(), owner)) continue;
        return "is owned by worker " + std::to_string(owner.value()) + " (who is not there)";
    }
    return std::nullopt;
}

}  // namespace

Fault find_fault_of_owners(const RunShape& shape, const LayerTable& table,
                           const OwnershipMap& owners) {
    if (auto fault = find_fault_of_table(table)) return fault;
    std::size_t next = 0;
    for (const TensorRef tensor : table.owned()) {
        for (std::int32_t chunk = 0; chunk < table.chunks_of(tensor); ++chunk, ++next) {
            const bool is_there =
                next < owners.chunks.size() && owners.chunks[next].chunk == ChunkRef{tensor, chunk};
            const Fault fault = is_there ? find_fault_of_chunk(shape, owners.chunks[next].owners)
                                         : Fault{"is not where it belongs in the map of owners"};
            if (!fault) continue;
            return "chunk " + std::to_string(chunk) + " of " + table.name_of(tensor) + " " + *fault;
        }
    }
    if (next != owners.chunks.size()) {
        return "the map of owners has " + std::to_string(owners.chunks.size()) +
               " chunks (the network has " + std::to_string(next) + ")";
    }
    return std::nullopt;
}

Demand demand_of(const Schedule& schedule, const LayerTable& table, const OwnershipMap& owners,
                 Purpose purpose) {
    const RunShape& shape = schedule.shape;
    Demand demand;
    demand.purpose = purpose;
    add_stages(schedule, demand);
    std::vector<bool> has_parts(shape.workers.size(), false);
    for (const PipelineDemand& pipeline : demand.pipelines) {
        has_parts[pipeline.stages.back().worker] = true;
    }
    demand.first_sum = 2 * demand.works;
    demand.first_parts = demand.first_sum;
    if (purpose == Purpose::training) {
        add_receivers(shape, table, owners, demand);
        add_sums(demand);
        add_parameters(shape, table, owners, demand);
        for (const OwnedChunk& chunk : owners.chunks) {
            has_parts[shape.place_of(chunk.owners.front())] = true;
            for (const WorkerId owner : chunk.owners) {
                demand.workers[shape.place_of(owner)].owns = true;
            }
        }
    }
    for (std::size_t worker = 0; worker < has_parts.size(); ++worker) {
        if (!has_parts[worker]) continue;
        demand.workers[worker].parts_row = demand.parts_senders.size();
        demand.parts_senders.push_back(worker);
    }
    demand.first_parameters =
        demand.first_parts + demand.parts_senders.size() * demand.workers.size();
    demand.messages = demand.first_parameters + demand.parameters.size();
    return demand;
}

std::size_t Demand::instructions_min() const {
    return works - works_kept + (first_parts - first_sum) +
           parts_senders.size() * (workers.size() - 1) + parameters.size();
}

}  // namespace rhizome::schedule
