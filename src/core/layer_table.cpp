#include "core/layer_table.hpp"

#include <algorithm>

namespace rhizome {

const ParameterFacts& LayerTable::at(TensorRef tensor) const {
    ENSURE(tensor.layer.index() < layers.size());
    const auto& parameters = layers[tensor.layer.index()].parameters;
    ENSURE(tensor.tensor >= 0 && static_cast<std::size_t>(tensor.tensor) < parameters.size());
    return parameters[static_cast<std::size_t>(tensor.tensor)];
}

std::string LayerTable::name_of(TensorRef tensor) const {
    const std::string& name = at(tensor).spec.name;
    return layers[tensor.layer.index()].name + "/" + name;
}

TensorRef LayerTable::owner_of(TensorRef tensor) const {
    return at(tensor).tied_to.value_or(tensor);
}

std::vector<TensorRef> LayerTable::uses_of(TensorRef owned_tensor) const {
    std::vector<TensorRef> uses;
    for (std::int32_t layer = 0; layer < static_cast<std::int32_t>(layers.size()); ++layer) {
        const auto count =
            static_cast<std::int32_t>(layers[LayerId{layer}.index()].parameters.size());
        for (std::int32_t tensor = 0; tensor < count; ++tensor) {
            const TensorRef use{LayerId{layer}, tensor};
            if (owner_of(use) == owned_tensor) uses.push_back(use);
        }
    }
    return uses;
}

std::vector<Tie> LayerTable::ties() const {
    std::vector<Tie> result;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
        const auto& parameters = layers[layer].parameters;
        for (std::size_t tensor = 0; tensor < parameters.size(); ++tensor) {
            if (const auto& owner = parameters[tensor].tied_to) {
                result.push_back({*owner,
                                  {LayerId{static_cast<std::int32_t>(layer)},
                                   static_cast<std::int32_t>(tensor)}});
            }
        }
    }
    return result;
}

std::vector<TensorRef> LayerTable::owned() const {
    std::vector<TensorRef> result;
    for (std::int32_t layer = 0; layer < static_cast<std::int32_t>(layers.size()); ++layer) {
        const auto& parameters = layers[LayerId{layer}.index()].parameters;
        for (std::int32_t tensor = 0; tensor < static_cast<std::int32_t>(parameters.size());
             ++tensor) {
            const TensorRef ref{LayerId{layer}, tensor};
            if (!at(ref).tied_to) result.push_back(ref);
        }
    }
    return result;
}

std::int32_t LayerTable::chunks_of(TensorRef tensor) const {
    ENSURE(chunk_elements > 0);
    const std::int64_t elements = at(tensor).spec.shape.elements();
    const std::int64_t chunks = (elements - 1) / chunk_elements + 1;
    ENSURE(chunks <= chunks_max);
    return static_cast<std::int32_t>(chunks);
}

std::int64_t LayerTable::first_element_of(ChunkRef chunk) const {
    ENSURE(chunk.chunk >= 0 && chunk.chunk < chunks_of(chunk.tensor));
    return chunk.chunk * chunk_elements;
}

std::int64_t LayerTable::elements_of(ChunkRef chunk) const {
    return std::min(chunk_elements,
                    at(chunk.tensor).spec.shape.elements() - first_element_of(chunk));
}

std::int64_t LayerTable::parameters() const {
    std::int64_t count = 0;
    for (const TensorRef tensor : owned()) count += at(tensor).spec.shape.elements();
    return count;
}

std::int64_t owned_elements(const LayerFacts& layer) {
    std::int64_t elements = 0;
    for (const ParameterFacts& parameter : layer.parameters) {
        if (!parameter.tied_to) elements += parameter.spec.shape.elements();
    }
    return elements;
}

}  // namespace rhizome
