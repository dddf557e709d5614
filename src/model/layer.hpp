// A layer: named tensors, plus a function from what comes in to what goes on. Everything a layer
// works on is handed to it, so whoever calls it decides where things live and for how long, and one
// layer object serves any number of microbatches at once.
//
// Between layers run named *wires*: tensors of a microbatch that cross a cut. A layer reads some,
// writes some, and the others pass it by untouched (an encoder's output on its way to every decoder
// layer, a residual stream).
//
// Backward has two parts. The input part turns gradients of written wires into gradients of read
// ones, and puts aside ("defers") what the weight part needs to add to the parameters' gradients.
// Schedules may run the weight part later. A whole backward is the input part followed
// by the weight part, so both ways give the same bits.
//
// A forward pass writes nothing that outlives the microbatch.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/layer_table.hpp"
#include "device/device.hpp"

namespace rhizome::model {

/// How a parameter begins.
struct Initial {
    enum class Kind : std::uint8_t { zeros, ones, normal };
    Kind kind = Kind::zeros;
    double deviation = 0.0;  // of `normal`, whose mean is 0
};

struct ParameterSpec {
    TensorSpec spec;
    Decay decay = Decay::none;
    Initial initial{};
    /// "layer/tensor" of an earlier layer whose weights are used here a second time.
    std::optional<std::string> tied_to{};
};

enum class Loss : std::uint8_t { none, adds };  // does the layer end in a loss?

/// All that has to be known about a layer before it runs. Shapes are those of one microbatch.
struct LayerSpec {
    std::string name;
    std::vector<ParameterSpec> parameters;
    std::vector<std::string> fields;   // read from the microbatch's data
    std::vector<std::string> reads;    // wires
    std::vector<TensorSpec> writes;    // wires, new or in place of one of the same name
    std::vector<std::string> ends;     // wires that go no further
    std::vector<TensorSpec> saved;     // kept from forward until the weight part of backward
    std::vector<TensorSpec> deferred;  // kept from the input part until the weight part
    std::vector<TensorSpec> scratch;   // of no worth after a call
    Loss loss = Loss::none;
    double forward_flops = 0;
    double backward_input_flops = 0;
    double backward_weight_flops = 0;
};

/// Which microbatch of which step, and how it counts.
struct Pass {
    enum class Mode : std::uint8_t { train, evaluate };
    Mode mode;
    std::uint64_t seed;
    Step step;
    Microbatch microbatch;
    double gradient_scale;  // 1 / loss terms of the whole step
};

/// The memory of one call, in the order of the layer's spec.
struct LayerTensors {
    std::span<const device::Tensor> parameters;
    std::span<const device::Tensor> fields;
    std::span<const device::Tensor> inputs;   // wires read
    std::span<const device::Tensor> outputs;  // wires written; only forward may touch them
    std::span<const device::Tensor> saved;
    std::span<const device::Tensor> scratch;
    device::Tensor loss;  // scalar f64; set by layers with Loss::adds
    // backward only
    std::span<const device::Tensor> d_outputs;  // read by the input part
    std::span<const device::Tensor> d_inputs;   // overwritten by the input part
    std::span<const device::Tensor> deferred;   // from the input part to the weight part
    std::span<const device::Tensor> gradients;  // of the parameters; the weight part adds to them
};

class Layer {
  public:
    Layer(LayerSpec spec, LayerId id) : spec_{std::move(spec)}, id_{id} {}
    virtual ~Layer() = default;
    Layer(const Layer&) = delete;
    Layer& operator=(const Layer&) = delete;

    [[nodiscard]] const LayerSpec& spec() const { return spec_; }
    [[nodiscard]] LayerId id() const { return id_; }

    virtual void forward(device::Stream&, const Pass&, const LayerTensors&) const = 0;
    virtual void backward_input(device::Stream&, const Pass&, const LayerTensors&) const = 0;
    virtual void backward_weight(device::Stream&, const Pass&, const LayerTensors&) const = 0;

  protected:
    /// The dropout of a site in this layer; none while evaluating or at probability 0.
    [[nodiscard]] std::optional<device::Dropout> dropout(double probability, int site,
                                                         const Pass& pass) const;

  private:
    LayerSpec spec_;
    LayerId id_;
};

}  // namespace rhizome::model
