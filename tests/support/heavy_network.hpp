// A network of many parameters and next to no mathematics: a step of it is the sum of its
// gradients, the commit, the optimizer and the parameters' way back.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/network.hpp"

namespace rhizome::tests {

/// Passes zeros on, and adds nothing to the gradient that the engine set to zero.
class HeavyLayer final : public model::Layer {
  public:
    enum class Place : std::uint8_t { first, middle, last };

    HeavyLayer(LayerId id, Place place, std::int64_t elements)
        : Layer{make_spec(id, place, elements), id} {}

    void forward(device::Stream& stream, const model::Pass&,
                 const model::LayerTensors& t) const override {
        for (const device::Tensor& output : t.outputs) stream.zero(output);
        if (spec().loss == model::Loss::adds) stream.zero(t.loss);
    }
    void backward_input(device::Stream& stream, const model::Pass&,
                        const model::LayerTensors& t) const override {
        for (const device::Tensor& d_input : t.d_inputs) stream.zero(d_input);
    }
    void backward_weight(device::Stream&, const model::Pass&,
                         const model::LayerTensors&) const override {}

  private:
    static model::LayerSpec make_spec(LayerId id, Place place, std::int64_t elements) {
        model::LayerSpec spec;
        spec.name = "heavy." + std::to_string(id.value());
        spec.parameters = {{.spec = {"weight", Shape{elements}, DType::f32}}};
        if (place == Place::first) spec.fields = {"tokens"};
        if (place != Place::first) spec.reads = {"hidden"};
        if (place != Place::last) spec.writes = {{"hidden", Shape{1}, DType::f32}};
        if (place == Place::last) spec.ends = {"hidden"};
        spec.loss = place == Place::last ? model::Loss::adds : model::Loss::none;
        return spec;
    }
};

/// `elements` parameters in all, in layers of equal size.
inline model::Network heavy_network(std::int32_t layers, std::int64_t elements,
                                    std::int64_t chunk_elements) {
    ENSURE(layers >= 2 && elements % layers == 0);
    std::vector<std::unique_ptr<model::Layer>> list;
    for (std::int32_t i = 0; i < layers; ++i) {
        using Place = HeavyLayer::Place;
        const Place place = i == 0 ? Place::first : i + 1 == layers ? Place::last : Place::middle;
        list.push_back(std::make_unique<HeavyLayer>(LayerId{i}, place, elements / layers));
    }
    return model::Network{std::move(list), chunk_elements};
}

}  // namespace rhizome::tests
