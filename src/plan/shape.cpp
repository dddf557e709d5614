#include "plan/shape.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"

namespace rhizome::plan {
namespace {

std::string pipelines_text(const ShapeWish& wish) {
    std::string text = "pipelines=";
    for (std::size_t p = 0; p < wish.pipelines.size(); ++p) {
        text += (p == 0 ? "" : ",") + std::to_string(wish.pipelines[p].workers);
    }
    return text;
}

void check_counts(std::size_t workers, const ShapeWish& wish) {
    const std::string asked = pipelines_text(wish);
    if (wish.pipelines.empty()) {
        throw ConfigError{asked + " (names no pipeline), give the depth of at least one"};
    }
    if (wish.interleave < 1) {
        throw ConfigError{"interleave=" + std::to_string(wish.interleave) +
                          " (a worker has at least one stage), take 1 or more"};
    }
    std::int64_t places = 0;
    for (const PipelineWish& pipeline : wish.pipelines) {
        if (pipeline.workers < 1) {
            throw ConfigError{asked + " (a pipeline has at least one worker), leave out the " +
                              std::to_string(pipeline.workers)};
        }
        places += pipeline.workers;
    }
    if (std::cmp_greater(wish.pipelines.size(), wish.lanes.lanes)) {
        throw ConfigError{asked + " (" + std::to_string(wish.pipelines.size()) +
                          " pipelines for lanes=" + std::to_string(wish.lanes.lanes) +
                          ", a pipeline runs whole lanes), take at most " +
                          std::to_string(wish.lanes.lanes) + " pipelines"};
    }
    if (std::cmp_less(workers, places)) {
        const auto missing = places - static_cast<std::int64_t>(workers);
        throw ConfigError{asked + " (need " + std::to_string(places) + " workers, there are " +
                          std::to_string(workers) + "), start " + std::to_string(missing) +
                          " more or take smaller pipelines"};
    }
}

/// Reasons of several pipelines must say which of them is meant.
ConfigError refusal(const ShapeWish& wish, std::size_t pipeline, NoCut why) {
    if (wish.pipelines.size() > 1) why.problem += " in pipeline " + std::to_string(pipeline);
    return ConfigError{why.message()};
}

void check_stages(const ShapeWish& wish, std::size_t pipeline) {
    const std::int32_t workers = wish.pipelines[pipeline].workers;
    const std::int64_t stages = std::int64_t{workers} * wish.interleave;
    const auto layers = static_cast<std::int64_t>(wish.layers.size());
    if (stages <= layers) return;
    NoCut why{"stages=" + std::to_string(stages),
              "the network has " + std::to_string(layers) + " layers",
              "take at most " + std::to_string(layers)};
    if (wish.interleave > 1) {
        why.reason = std::to_string(workers) +
                     " workers with interleave=" + std::to_string(wish.interleave) + ", " +
                     why.reason;
    }
    throw refusal(wish, pipeline, why);
}

/// The hosts of a pipeline's stages, given its workers' facts.
std::vector<StageHost> hosts_of(const WorkerFacts* workers, const ShapeWish& wish,
                                const PipelineWish& pipeline) {
    const std::int32_t stages = pipeline.workers * wish.interleave;
    ENSURE(pipeline.in_flight.empty() || std::cmp_equal(pipeline.in_flight.size(), stages));
    std::vector<StageHost> hosts;
    for (std::int32_t s = 0; s < stages; ++s) {
        const WorkerFacts& worker = workers[s % pipeline.workers];
        hosts.push_back({.slowness = worker.slowness,
                         .memory_bytes_max = worker.memory_bytes_max / wish.interleave,
                         .in_flight = pipeline.in_flight.empty()
                                          ? std::min(stages - s, wish.lanes.microbatches)
                                          : pipeline.in_flight[static_cast<std::size_t>(s)]});
    }
    return hosts;
}

std::optional<NoCut> find_fault_of_hand(const WorkerFacts* workers, const ShapeWish& wish,
                                        const Cut& cut, std::int32_t width,
                                        const std::vector<StageHost>& hosts) {
    const std::string problem = "cut=" + text_of(cut);
    if (cut.size() != hosts.size()) {
        return NoCut{problem,
                     std::to_string(cut.size()) + " stages for " + std::to_string(width) +
                         " workers with interleave=" + std::to_string(wish.interleave),
                     "cut into " + std::to_string(hosts.size())};
    }
    for (std::int32_t w = 0; w < width; ++w) {
        std::int64_t needed = 0;
        for (auto s = static_cast<std::size_t>(w); s < cut.size();
             s += static_cast<std::size_t>(width)) {
            needed += stage_bytes(wish.layers, cut[s], hosts[s]);
        }
        if (needed <= workers[w].memory_bytes_max) continue;
        return NoCut{problem,
                     "worker " + std::to_string(workers[w].id.value()) + " needs " +
                         to_short(static_cast<double>(needed)) + "B and has " +
                         to_short(static_cast<double>(workers[w].memory_bytes_max)) + "B",
                     "give it fewer layers"};
    }
    return std::nullopt;
}

Cut cut_of(const WorkerFacts* workers, const ShapeWish& wish, std::size_t p,
           const std::vector<StageHost>& hosts) {
    const PipelineWish& pipeline = wish.pipelines[p];
    if (pipeline.cut) {
        ENSURE(!pipeline.cut->empty() &&
               std::cmp_equal(pipeline.cut->back().last, wish.layers.size()));
        if (auto why = find_fault_of_hand(workers, wish, *pipeline.cut, pipeline.workers, hosts)) {
            throw refusal(wish, p, *why);
        }
        return *pipeline.cut;
    }
    const MaybeCut found = cut_layers(wish.layers, hosts);
    if (const auto* why = std::get_if<NoCut>(&found)) throw refusal(wish, p, *why);
    return std::get<Cut>(found);
}

}  // namespace

RunShape make_shape(const std::vector<WorkerFacts>& workers, const ShapeWish& wish) {
    check_counts(workers.size(), wish);
    RunShape shape{.workers = {}, .lanes = wish.lanes, .pipelines = {}};
    for (const WorkerFacts& worker : workers) shape.workers.push_back(worker.id);
    std::sort(shape.workers.begin(), shape.workers.end());

    std::vector<double> speeds;
    const WorkerFacts* next = workers.data();
    for (std::size_t p = 0; p < wish.pipelines.size(); ++p) {
        check_stages(wish, p);
        const std::vector<StageHost> hosts = hosts_of(next, wish, wish.pipelines[p]);
        const Cut cut = cut_of(next, wish, p, hosts);
        const std::int32_t width = wish.pipelines[p].workers;
        PipelineShape pipeline{.stages = {}, .lanes = {0, 0}};
        for (std::size_t s = 0; s < cut.size(); ++s) {
            pipeline.stages.push_back({next[s % static_cast<std::size_t>(width)].id, cut[s]});
        }
        shape.pipelines.push_back(std::move(pipeline));
        speeds.push_back(1 / slowest_stage_s(wish.layers, cut, hosts));
        next += width;
    }
    const std::vector<std::int32_t> lanes = share_lanes(wish.lanes.lanes, speeds);
    std::int32_t first = 0;
    for (std::size_t p = 0; p < lanes.size(); ++p) {
        shape.pipelines[p].lanes = {first, first + lanes[p]};
        first += lanes[p];
    }
    ENSURE(!find_fault(shape, static_cast<std::int32_t>(wish.layers.size())));
    return shape;
}

std::vector<std::int32_t> share_lanes(std::int32_t lanes, const std::vector<double>& speeds) {
    ENSURE(!speeds.empty() && std::cmp_less_equal(speeds.size(), lanes));
    for (const double speed : speeds) ENSURE(std::isfinite(speed) && speed > 0);
    std::vector<std::int32_t> shares(speeds.size(), 0);
    std::vector<std::size_t> open(speeds.size());  // those whose part is at least one lane
    std::iota(open.begin(), open.end(), std::size_t{0});
    std::int32_t left = lanes;
    std::vector<double> quotas(speeds.size(), 0);
    for (bool changed = true; changed;) {
        double total = 0;
        for (const std::size_t p : open) total += speeds[p];
        for (const std::size_t p : open) quotas[p] = left * (speeds[p] / total);
        // One lane for whoever is due less; that lowers the parts of the others, so look again.
        const auto small = std::stable_partition(open.begin(), open.end(),
                                                 [&](std::size_t p) { return quotas[p] >= 1; });
        changed = small != open.end() && small != open.begin();
        for (auto p = small; p != open.end(); ++p) {
            shares[*p] = 1;
            --left;
        }
        open.erase(small, open.end());
    }
    for (const std::size_t p : open) {
        shares[p] = static_cast<std::int32_t>(quotas[p]);
        left -= shares[p];
    }
    std::stable_sort(open.begin(), open.end(), [&](std::size_t a, std::size_t b) {
        return quotas[a] - std::floor(quotas[a]) > quotas[b] - std::floor(quotas[b]);
    });
    ENSURE(left == 0 || !open.empty());
    for (std::size_t i = 0; left > 0; i = (i + 1) % open.size(), --left) ++shares[open[i]];
    return shares;
}

}  // namespace rhizome::plan
