#include "schedule/exchange.hpp"

#include <algorithm>
#include <set>

namespace rhizome::schedule {

Exchange::Exchange(const RunShape& shape, const LayerTable& table, const OwnershipMap& owners)
    : shape_{shape}, table_{table}, owners_{owners} {
    for (std::size_t i = 0; i < owners.chunks.size(); ++i) {
        const OwnedChunk& each = owners.chunks[i];
        ENSURE(!each.owners.empty());
        chunks_of_.try_emplace(each.chunk.tensor, i, i).first->second.second = i + 1;
        for (const WorkerId owner : each.owners) {
            elements_owned_[owner] += table.elements_of(each.chunk);
        }
    }
    std::map<WorkerId, std::set<TensorRef>> held;  // owned tensors that each worker computes with
    for (const PipelineShape& pipeline : shape.pipelines) {
        for (const StageShape& stage : pipeline.stages) {
            for (std::int32_t layer = stage.layers.first; layer < stage.layers.last; ++layer) {
                const auto& parameters = table.layers[static_cast<std::size_t>(layer)].parameters;
                for (std::int32_t i = 0; i < static_cast<std::int32_t>(parameters.size()); ++i) {
                    held[stage.worker].insert(table.owner_of({LayerId{layer}, i}));
                }
            }
        }
    }
    for (const auto& [holder, tensors] : held) {
        for (const TensorRef tensor : tensors) {
            const auto [first, last] = chunks_of_.at(tensor);
            for (std::size_t i = first; i < last; ++i) {
                const OwnedChunk& each = owners.chunks[i];
                if (!each.is_owned_by(holder)) {
                    parameters_[{each.owners.front(), holder}] += table.elements_of(each.chunk);
                }
            }
        }
    }
}

std::map<WorkerId, std::int64_t> Exchange::owners_of(LayerRange layers) const {
    std::map<WorkerId, std::int64_t> elements;
    for (std::int32_t layer = layers.first; layer < layers.last; ++layer) {
        const auto& parameters = table_.layers[static_cast<std::size_t>(layer)].parameters;
        for (std::int32_t i = 0; i < static_cast<std::int32_t>(parameters.size()); ++i) {
            const auto [first, last] = chunks_of_.at(table_.owner_of({LayerId{layer}, i}));
            for (std::size_t chunk = first; chunk < last; ++chunk) {
                for (const WorkerId owner : owners_.chunks[chunk].owners) {
                    elements[owner] += table_.elements_of(owners_.chunks[chunk].chunk);
                }
            }
        }
    }
    return elements;
}

std::vector<WorkerId> Exchange::part_senders() const {
    std::set<WorkerId> senders;
    for (const OwnedChunk& each : owners_.chunks) senders.insert(each.owners.front());
    for (const PipelineShape& pipeline : shape_.pipelines) {
        senders.insert(pipeline.stages.back().worker);
    }
    return {senders.begin(), senders.end()};
}

std::int64_t Exchange::elements_owned(WorkerId worker) const {
    const auto found = elements_owned_.find(worker);
    return found == elements_owned_.end() ? 0 : found->second;
}

}  // namespace rhizome::schedule
