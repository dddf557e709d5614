#include "model/network.hpp"

#include <algorithm>
#include <map>

namespace rhizome::model {
namespace {

std::int64_t bytes_of_all(const std::vector<TensorSpec>& specs) {
    std::int64_t bytes = 0;
    for (const TensorSpec& spec : specs) bytes += spec.bytes();
    return bytes;
}

}  // namespace

std::optional<device::Dropout> Layer::dropout(double probability, int site,
                                              const Pass& pass) const {
    if (probability == 0.0 || pass.mode == Pass::Mode::evaluate) return std::nullopt;
    return device::Dropout{probability,
                           RandomSite::in_step(pass.seed, id_, site, pass.step, pass.microbatch)};
}

Network::Network(std::vector<std::unique_ptr<Layer>> layers, std::int64_t chunk_elements)
    : layers_{std::move(layers)}, table_{.layers = {}, .chunk_elements = chunk_elements} {
    ENSURE(!layers_.empty() && chunk_elements > 0);
    for (std::int32_t i = 0; i < size(); ++i) {
        const Layer& each = layer(LayerId{i});
        ENSURE(each.id() == LayerId{i});
        ENSURE((each.spec().loss == Loss::adds) == (i + 1 == size()));
    }
    connect_wires();
    fill_table();
}

void Network::connect_wires() {
    std::vector<std::pair<std::string, WireValue>> wires;  // in the order they were first written
    const auto find = [&](const std::string& name) {
        return std::find_if(wires.begin(), wires.end(),
                            [&](const auto& wire) { return wire.first == name; });
    };
    for (std::int32_t i = 0; i < size(); ++i) {
        const LayerSpec& spec = layer(LayerId{i}).spec();
        std::vector<WireValue> read;
        for (const std::string& name : spec.reads) {
            ENSURE(find(name) != wires.end());
            const WireValue value = find(name)->second;
            // Twice by one layer would be one gradient written twice.
            ENSURE(std::find(read.begin(), read.end(), value) == read.end());
            read.push_back(value);
            last_reader_.insert_or_assign(value, LayerId{i});
        }
        for (const std::string& name : spec.ends) {
            ENSURE(find(name) != wires.end());
            wires.erase(find(name));
        }
        for (std::size_t output = 0; output < spec.writes.size(); ++output) {
            const WireValue value{LayerId{i}, static_cast<std::int32_t>(output)};
            const auto old = find(spec.writes[output].name);
            if (old != wires.end()) {
                old->second = value;
            } else {
                wires.emplace_back(spec.writes[output].name, value);
            }
        }
        std::vector<WireValue> behind;
        for (const auto& [name, value] : wires) behind.push_back(value);
        values_read_.push_back(std::move(read));
        values_behind_.push_back(std::move(behind));
    }
    ENSURE(values_behind_.back().empty());
    for (std::int32_t i = 0; i < size(); ++i) {
        for (std::size_t output = 0; output < layer(LayerId{i}).spec().writes.size(); ++output) {
            // A value that nobody reads has no gradient.
            ENSURE(last_reader_.contains({LayerId{i}, static_cast<std::int32_t>(output)}));
        }
    }
}

void Network::fill_table() {
    std::map<std::string, TensorRef> by_name;
    for (std::int32_t i = 0; i < size(); ++i) {
        const LayerSpec& spec = layer(LayerId{i}).spec();
        LayerFacts facts{
            .name = spec.name, .parameters = {}, .outputs = {}, .fields = spec.fields, .costs = {}};
        for (const ParameterSpec& parameter : spec.parameters) {
            ParameterFacts known{.spec = parameter.spec, .decay = parameter.decay};
            if (parameter.tied_to) {
                const auto owner = by_name.find(*parameter.tied_to);
                ENSURE(owner != by_name.end() && !table_.at(owner->second).tied_to);
                ENSURE(table_.at(owner->second).spec.shape == parameter.spec.shape);
                known.tied_to = owner->second;
            }
            const TensorRef ref{LayerId{i}, static_cast<std::int32_t>(facts.parameters.size())};
            facts.parameters.push_back(known);
            ENSURE(by_name.emplace(spec.name + "/" + parameter.spec.name, ref).second);
        }
        for (const WireValue value : values_behind(LayerId{i})) {
            facts.outputs.push_back(
                layer(value.writer).spec().writes[static_cast<std::size_t>(value.output)]);
        }
        facts.costs = {.forward_flops = spec.forward_flops,
                       .backward_input_flops = spec.backward_input_flops,
                       .backward_weight_flops = spec.backward_weight_flops,
                       .saved_bytes = bytes_of_all(spec.saved),
                       .deferred_bytes = bytes_of_all(spec.deferred),
                       .output_bytes = bytes_of_all(facts.outputs)};
        table_.layers.push_back(std::move(facts));
    }
}

std::int64_t largest_tensor(const Network& network) {
    std::int64_t bytes = 0;
    for (std::int32_t i = 0; i < network.size(); ++i) {
        const LayerSpec& spec = network.layer(LayerId{i}).spec();
        for (const auto* specs : {&spec.writes, &spec.saved, &spec.deferred, &spec.scratch}) {
            for (const TensorSpec& tensor : *specs) bytes = std::max(bytes, tensor.bytes());
        }
        for (const auto& parameter : spec.parameters) {
            bytes = std::max(bytes, parameter.spec.bytes());
        }
    }
    return bytes;
}

}  // namespace rhizome::model
