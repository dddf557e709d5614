#include "plan/ownership.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "plan/balance.hpp"

namespace rhizome::plan {
namespace {

constexpr std::int32_t holder = 0;
constexpr std::int32_t shadow = 1;
constexpr std::int32_t anybody = 2;

/// The class of each worker for the chunks of one tensor.
std::vector<std::int32_t> classes_for(const RunShape& shape, const std::vector<TensorRef>& uses) {
    std::vector<std::int32_t> classes(shape.workers.size(), anybody);
    const auto raise = [&](WorkerId worker, std::int32_t to) {
        std::int32_t& now = classes[shape.place_of(worker)];
        now = std::min(now, to);
    };
    for (const PipelineShape& pipeline : shape.pipelines) {
        const std::vector<StageShape>& stages = pipeline.stages;
        for (std::size_t s = 0; s < stages.size(); ++s) {
            const LayerRange layers = stages[s].layers;
            const bool used = std::any_of(uses.begin(), uses.end(), [&](TensorRef use) {
                return layers.first <= use.layer.value() && use.layer.value() < layers.last;
            });
            if (!used) continue;
            raise(stages[s].worker, holder);
            if (s > 0) raise(stages[s - 1].worker, shadow);
            if (s == 0 && stages.size() > 1) raise(stages[1].worker, shadow);
        }
    }
    return classes;
}

/// Where the workers stand in the shape, ascending; those who left are left out.
std::vector<std::int32_t> places_of(const RunShape& shape, const std::vector<WorkerId>& workers) {
    std::vector<std::int32_t> places;
    for (const WorkerId worker : workers) {
        if (!std::binary_search(shape.workers.begin(), shape.workers.end(), worker)) continue;
        places.push_back(static_cast<std::int32_t>(shape.place_of(worker)));
    }
    std::sort(places.begin(), places.end());
    return places;
}

std::vector<ChunkRef> owned_chunks(const LayerTable& table) {
    std::vector<ChunkRef> chunks;
    for (const TensorRef tensor : table.owned()) {
        for (std::int32_t c = 0; c < table.chunks_of(tensor); ++c) chunks.push_back({tensor, c});
    }
    return chunks;
}

/// One first owner for each item, out of its owners: the same balancing, in which all that are no
/// owners are of a class that need not be touched.
std::vector<std::int32_t> first_owners(const Spread& owned,
                                       const std::vector<std::vector<std::int32_t>>& owners,
                                       const std::vector<std::vector<std::int32_t>>& before) {
    constexpr std::int32_t no_owner = anybody + 1;
    Spread firsts{.copies = 1, .domain_of = owned.domain_of, .class_of = {}, .items = {}};
    for (std::size_t i = 0; i < owners.size(); ++i) {
        const std::vector<std::int32_t>& liked = owned.class_of[owned.items[i].kind];
        std::vector<std::int32_t> classes(owned.domain_of.size(), no_owner);
        for (const std::int32_t place : owners[i]) {
            const auto p = static_cast<std::size_t>(place);
            classes[p] = liked[p] == holder ? holder : anybody;
        }
        firsts.class_of.push_back(std::move(classes));
        firsts.items.push_back({owned.items[i].elements, i, before[i]});
    }
    std::vector<std::int32_t> result;
    for (const auto& places : spread_evenly(firsts)) result.push_back(places.front());
    return result;
}

}  // namespace

OwnershipMap assign_owners(const LayerTable& table, const RunShape& shape,
                           const std::vector<FailureDomain>& domains, std::int32_t redundancy,
                           const OwnershipMap* previous) {
    ENSURE(redundancy >= 1 && domains.size() == shape.workers.size());
    ENSURE(!find_fault(shape, static_cast<std::int32_t>(table.layers.size())));
    const std::vector<ChunkRef> chunks = owned_chunks(table);
    ENSURE(previous == nullptr || previous->chunks.size() == chunks.size());

    const auto workers = static_cast<std::int32_t>(shape.workers.size());
    Spread spread{
        .copies = std::min(redundancy, workers), .domain_of = {}, .class_of = {}, .items = {}};
    for (const FailureDomain domain : domains) spread.domain_of.push_back(domain.value());
    std::vector<std::vector<std::int32_t>> first_before(chunks.size());
    for (std::size_t i = 0; i < chunks.size(); ++i) {
        if (i == 0 || chunks[i].tensor != chunks[i - 1].tensor) {
            spread.class_of.push_back(classes_for(shape, table.uses_of(chunks[i].tensor)));
        }
        Item item{table.elements_of(chunks[i]), spread.class_of.size() - 1};
        if (previous != nullptr) {
            const OwnedChunk& was = previous->chunks[i];
            ENSURE(was.chunk == chunks[i] && !was.owners.empty());
            item.before = places_of(shape, was.owners);
            first_before[i] = places_of(shape, {was.owners.front()});
        }
        spread.items.push_back(std::move(item));
    }

    const auto owners = spread_evenly(spread);
    const auto firsts = first_owners(spread, owners, first_before);
    OwnershipMap map;
    for (std::size_t i = 0; i < chunks.size(); ++i) {
        const auto worker_at = [&](std::int32_t place) {
            return shape.workers[static_cast<std::size_t>(place)];
        };
        OwnedChunk chunk{chunks[i], {worker_at(firsts[i])}};
        for (const std::int32_t place : owners[i]) {
            if (place != firsts[i]) chunk.owners.push_back(worker_at(place));
        }
        map.chunks.push_back(std::move(chunk));
    }
    return map;
}

}  // namespace rhizome::plan
