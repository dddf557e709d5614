#include "model/parameters.hpp"

#include <algorithm>
#include <map>

namespace rhizome::model {

namespace {

/// Which of a set's tensors have memory of their own, and which tensor is where.
struct Arrangement {
    std::vector<TensorSpec> specs;
    std::vector<std::vector<std::size_t>> places;  // in specs; by layer of the table, by tensor
};

Arrangement arrange(const LayerTable& table, TiedTensors tied, std::span<const LayerRange> layers) {
    Arrangement result;
    result.places.resize(table.layers.size());
    std::map<TensorRef, std::size_t> shared;  // by owner
    for (const LayerRange& range : layers) {
        for (std::int32_t layer = range.first; layer < range.last; ++layer) {
            const auto& parameters = table.layers[static_cast<std::size_t>(layer)].parameters;
            for (std::int32_t i = 0; i < static_cast<std::int32_t>(parameters.size()); ++i) {
                const TensorRef use{LayerId{layer}, i};
                const TensorRef key = tied == TiedTensors::shared ? table.owner_of(use) : use;
                const auto [place, is_new] = shared.try_emplace(key, result.specs.size());
                if (is_new) result.specs.push_back(table.at(use).spec);
                result.places[use.layer.index()].push_back(place->second);
            }
        }
    }
    return result;
}

std::vector<LayerRange> all_layers(const LayerTable& table) {
    return {{0, static_cast<std::int32_t>(table.layers.size())}};
}

}  // namespace

std::int64_t TensorSet::planned_bytes(const LayerTable& table, TiedTensors tied) {
    return planned_bytes(table, tied, all_layers(table));
}

std::int64_t TensorSet::planned_bytes(const LayerTable& table, TiedTensors tied,
                                      std::span<const LayerRange> layers) {
    return device::Layout{arrange(table, tied, layers).specs}.bytes;
}

TensorSet::TensorSet(device::Device& device, const LayerTable& table, TiedTensors tied)
    : TensorSet{device, table, tied, all_layers(table)} {}

TensorSet::TensorSet(device::Device& device, const LayerTable& table, TiedTensors tied,
                     std::span<const LayerRange> layers) {
    const Arrangement arrangement = arrange(table, tied, layers);
    tensors_.resize(table.layers.size());
    if (arrangement.specs.empty()) return;
    const device::Layout layout{arrangement.specs};
    memory_ = device.allocate(layout.bytes);
    const DType dtype = arrangement.specs.front().dtype;
    whole_ = memory_.at(0, {"whole", Shape{layout.bytes / bytes_of(dtype)}, dtype});
    for (std::size_t layer = 0; layer < table.layers.size(); ++layer) {
        for (const std::size_t place : arrangement.places[layer]) {
            ENSURE(arrangement.specs[place].dtype == dtype);
            tensors_[layer].push_back(memory_.at(layout.offsets[place], arrangement.specs[place]));
        }
    }
}

device::Tensor TensorSet::at(TensorRef tensor) const {
    ENSURE(tensor.layer.index() < tensors_.size());
    const auto& tensors = tensors_[tensor.layer.index()];
    ENSURE(static_cast<std::size_t>(tensor.tensor) < tensors.size());
    return tensors[static_cast<std::size_t>(tensor.tensor)];
}

namespace {

template <class T>
std::vector<T> initial_values(const Initial& initial, const RandomSite& site,
                              std::int64_t elements) {
    if (initial.kind != Initial::Kind::normal) {
        const T value = initial.kind == Initial::Kind::ones ? T{1} : T{0};
        return std::vector<T>(static_cast<std::size_t>(elements), value);
    }
    std::vector<T> values(static_cast<std::size_t>(elements));
    for (std::size_t first = 0; first < values.size(); first += 4) {
        const auto drawn = normals(site, static_cast<std::uint32_t>(first / 4));
        const std::size_t count = std::min<std::size_t>(4, values.size() - first);
        for (std::size_t i = 0; i < count; ++i) {
            values[first + i] = static_cast<T>(drawn[i] * initial.deviation);
        }
    }
    return values;
}

template <class T>
std::vector<std::byte> initial_bytes_of(const Initial& initial, const RandomSite& site,
                                        std::int64_t elements) {
    const auto values = initial_values<T>(initial, site, elements);
    const auto bytes = std::as_bytes(std::span{values});
    return {bytes.begin(), bytes.end()};
}

}  // namespace

std::vector<std::byte> initial_bytes(const Network& network, std::uint64_t seed, TensorRef owned) {
    const auto& parameter =
        network.layer(owned.layer).spec().parameters[static_cast<std::size_t>(owned.tensor)];
    ENSURE(!parameter.tied_to);
    const RandomSite site = RandomSite::initial(seed, owned.layer, owned.tensor);
    const std::int64_t elements = parameter.spec.shape.elements();
    return parameter.spec.dtype == DType::f64
               ? initial_bytes_of<double>(parameter.initial, site, elements)
               : initial_bytes_of<float>(parameter.initial, site, elements);
}

void initialize(device::Stream& stream, const Network& network, std::uint64_t seed,
                const TensorSet& parameters) {
    for (const TensorRef owned : network.table().owned()) {
        const auto bytes = initial_bytes(network, seed, owned);
        stream.upload(parameters.at(owned), bytes);
        stream.synchronize();  // before `bytes` goes
    }
}

}  // namespace rhizome::model
