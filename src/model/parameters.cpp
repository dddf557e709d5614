#include "model/parameters.hpp"

#include <algorithm>

namespace rhizome::model {

namespace {

std::vector<TensorSpec> specs_of(const LayerTable& table, TiedTensors tied) {
    std::vector<TensorSpec> specs;
    for (const LayerFacts& layer : table.layers) {
        for (const ParameterFacts& parameter : layer.parameters) {
            if (!parameter.tied_to || tied == TiedTensors::separate) {
                specs.push_back(parameter.spec);
            }
        }
    }
    return specs;
}

}  // namespace

std::int64_t TensorSet::planned_bytes(const LayerTable& table, TiedTensors tied) {
    return device::Layout{specs_of(table, tied)}.bytes;
}

TensorSet::TensorSet(device::Device& device, const LayerTable& table, TiedTensors tied) {
    const std::vector<TensorSpec> specs = specs_of(table, tied);
    ENSURE(!specs.empty());
    const device::Layout layout{specs};
    memory_ = device.allocate(layout.bytes);
    const DType dtype = specs.front().dtype;
    whole_ = memory_.at(0, {"whole", Shape{layout.bytes / bytes_of(dtype)}, dtype});

    std::size_t next = 0;
    for (const LayerFacts& layer : table.layers) {
        auto& tensors = tensors_.emplace_back();
        for (const ParameterFacts& parameter : layer.parameters) {
            if (parameter.tied_to && tied == TiedTensors::shared) {
                tensors.push_back(at(*parameter.tied_to));
            } else {
                ENSURE(specs[next].dtype == dtype);
                tensors.push_back(memory_.at(layout.offsets[next], specs[next]));
                ++next;
            }
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
void upload_initial_values(device::Stream& stream, const device::Tensor& to, const Initial& initial,
                           const RandomSite& site) {
    const auto values = initial_values<T>(initial, site, to.elements());
    stream.upload(to, std::as_bytes(std::span{values}));
    stream.synchronize();  // before `values` goes
}

}  // namespace

void initialize(device::Stream& stream, const Network& network, std::uint64_t seed,
                const TensorSet& parameters) {
    for (const TensorRef ref : network.table().owned()) {
        const auto& spec =
            network.layer(ref.layer).spec().parameters[static_cast<std::size_t>(ref.tensor)];
        const RandomSite site = RandomSite::initial(seed, ref.layer, ref.tensor);
        if (spec.spec.dtype == DType::f64) {
            upload_initial_values<double>(stream, parameters.at(ref), spec.initial, site);
        } else {
            upload_initial_values<float>(stream, parameters.at(ref), spec.initial, site);
        }
    }
}

}  // namespace rhizome::model
