#include "schedule/costs.hpp"

namespace rhizome::schedule {

double Costs::compute_s(Kind kind, LayerRange layers_of_stage) const {
    double seconds = 0;
    for (std::int32_t i = layers_of_stage.first; i < layers_of_stage.last; ++i) {
        const LayerCost& layer = layers[static_cast<std::size_t>(i)];
        switch (kind) {
            case Kind::forward:
            case Kind::recompute:
                seconds += layer.forward_s;
                break;
            case Kind::backward:
                seconds += layer.backward_input_s + layer.backward_weight_s;
                break;
            case Kind::backward_input:
                seconds += layer.backward_input_s;
                break;
            case Kind::backward_weight:
                seconds += layer.backward_weight_s;
                break;
            default:
                ENSURE(is_compute(kind));
        }
    }
    return seconds;
}

double Costs::transfer_s(std::int64_t bytes) const {
    const double at_rate =
        link_bytes_per_s > 0 ? static_cast<double>(bytes) / link_bytes_per_s : 0.0;
    return link_latency_s + at_rate;
}

Costs equal_costs(std::int32_t layers) {
    Costs costs;
    costs.layers.assign(static_cast<std::size_t>(layers), LayerCost{1.0, 1.0, 1.0});
    return costs;
}

Costs estimated_costs(const LayerTable& table, double flops_per_s, double link_bytes_per_s,
                      double link_latency_s) {
    Costs costs;
    costs.link_bytes_per_s = link_bytes_per_s;
    costs.link_latency_s = link_latency_s;
    // Even a layer without arithmetic to speak of, such as an embedding's input part, is a call.
    const auto seconds = [&](double flops) { return (flops + 1) / flops_per_s; };
    for (const LayerFacts& layer : table.layers) {
        costs.layers.push_back({.forward_s = seconds(layer.costs.forward_flops),
                                .backward_input_s = seconds(layer.costs.backward_input_flops),
                                .backward_weight_s = seconds(layer.costs.backward_weight_flops),
                                .wire_bytes = layer.costs.output_bytes,
                                .saved_bytes = layer.costs.saved_bytes,
                                .deferred_bytes = layer.costs.deferred_bytes});
    }
    return costs;
}

}  // namespace rhizome::schedule
