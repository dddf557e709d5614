// One pre-norm transformer block:
//
//   x --+-- norm_1 - attention - projection - dropout -- + -- middle
//       |                                                |
//       +------------------------------------------------+
//
//   middle --+-- norm_2 - expand - gelu - contract - dropout -- + -- y
//            |                                                  |
//            +--------------------------------------------------+
//
// Its input part of backward walks the same way back and leaves, for every linear and norm, the
// gradient of its output aside; the weight part is then one product per matrix.
#include <cmath>

#include "model/gpt_layers.hpp"

namespace rhizome::model {
namespace {

using device::Tensor;

// Places in the lists of the spec; the order of `parameters` is the contract's (MATHEMATICS.md).
namespace parameter {
enum : std::size_t {
    norm_1_weight,
    norm_1_bias,
    attention_weight,
    attention_bias,
    projection_weight,
    projection_bias,
    norm_2_weight,
    norm_2_bias,
    expand_weight,
    expand_bias,
    contract_weight,
    contract_bias
};
}
namespace saved {
enum : std::size_t {
    mean_1,
    inverse_1,
    normed_1,
    qkv,
    log_sum,
    heads,
    middle,
    mean_2,
    inverse_2,
    normed_2,
    expanded,
    bent
};
}
namespace deferred {
enum : std::size_t { d_normed_1, d_qkv, d_projected, d_normed_2, d_expanded, d_contracted };
}
namespace scratch {
enum : std::size_t { narrow, narrow_2, wide };
}
namespace site {
enum : int { probabilities, attention, feed_forward };
}

class Block final : public Layer {
  public:
    Block(LayerSpec spec, LayerId id, double dropout)
        : Layer{std::move(spec), id}, dropout_{dropout} {}

    void forward(device::Stream& stream, const Pass& pass, const LayerTensors& t) const override {
        const auto& p = t.parameters;
        const auto& s = t.saved;
        const Tensor branch = t.scratch[scratch::narrow];

        stream.norm(s[saved::normed_1], s[saved::mean_1], s[saved::inverse_1], t.inputs[0],
                    p[parameter::norm_1_weight], p[parameter::norm_1_bias]);
        stream.linear(s[saved::qkv], s[saved::normed_1], p[parameter::attention_weight],
                      p[parameter::attention_bias]);
        stream.attention(s[saved::heads], s[saved::log_sum], s[saved::qkv],
                         dropout(dropout_, site::probabilities, pass));
        stream.linear(branch, s[saved::heads], p[parameter::projection_weight],
                      p[parameter::projection_bias]);
        drop(stream, branch, branch, site::attention, pass);
        stream.add(s[saved::middle], t.inputs[0], branch);

        stream.norm(s[saved::normed_2], s[saved::mean_2], s[saved::inverse_2], s[saved::middle],
                    p[parameter::norm_2_weight], p[parameter::norm_2_bias]);
        stream.linear(s[saved::expanded], s[saved::normed_2], p[parameter::expand_weight],
                      p[parameter::expand_bias]);
        stream.gelu(s[saved::bent], s[saved::expanded]);
        stream.linear(branch, s[saved::bent], p[parameter::contract_weight],
                      p[parameter::contract_bias]);
        drop(stream, branch, branch, site::feed_forward, pass);
        stream.add(t.outputs[0], s[saved::middle], branch);
    }

    void backward_input(device::Stream& stream, const Pass& pass,
                        const LayerTensors& t) const override {
        const auto& p = t.parameters;
        const auto& s = t.saved;
        const auto& d = t.deferred;
        const Tensor narrow = t.scratch[scratch::narrow];
        const Tensor d_middle = t.scratch[scratch::narrow_2];

        drop(stream, d[deferred::d_contracted], t.d_outputs[0], site::feed_forward, pass);
        stream.linear_backward_input(t.scratch[scratch::wide], d[deferred::d_contracted],
                                     p[parameter::contract_weight]);
        stream.gelu_backward(d[deferred::d_expanded], t.scratch[scratch::wide], s[saved::expanded]);
        stream.linear_backward_input(d[deferred::d_normed_2], d[deferred::d_expanded],
                                     p[parameter::expand_weight]);
        stream.norm_backward_input(narrow, d[deferred::d_normed_2], s[saved::middle],
                                   s[saved::mean_2], s[saved::inverse_2],
                                   p[parameter::norm_2_weight]);
        stream.add(d_middle, t.d_outputs[0], narrow);

        drop(stream, d[deferred::d_projected], d_middle, site::attention, pass);
        stream.linear_backward_input(narrow, d[deferred::d_projected],
                                     p[parameter::projection_weight]);
        stream.attention_backward(d[deferred::d_qkv], narrow, s[saved::heads], s[saved::log_sum],
                                  s[saved::qkv], dropout(dropout_, site::probabilities, pass));
        stream.linear_backward_input(d[deferred::d_normed_1], d[deferred::d_qkv],
                                     p[parameter::attention_weight]);
        stream.norm_backward_input(narrow, d[deferred::d_normed_1], t.inputs[0], s[saved::mean_1],
                                   s[saved::inverse_1], p[parameter::norm_1_weight]);
        stream.add(t.d_inputs[0], d_middle, narrow);
    }

    void backward_weight(device::Stream& stream, const Pass& /*pass*/,
                         const LayerTensors& t) const override {
        const auto& g = t.gradients;
        const auto& s = t.saved;
        const auto& d = t.deferred;
        stream.linear_backward_weight(g[parameter::contract_weight], g[parameter::contract_bias],
                                      d[deferred::d_contracted], s[saved::bent]);
        stream.linear_backward_weight(g[parameter::expand_weight], g[parameter::expand_bias],
                                      d[deferred::d_expanded], s[saved::normed_2]);
        stream.norm_backward_weight(g[parameter::norm_2_weight], g[parameter::norm_2_bias],
                                    d[deferred::d_normed_2], s[saved::middle], s[saved::mean_2],
                                    s[saved::inverse_2]);
        stream.linear_backward_weight(g[parameter::projection_weight],
                                      g[parameter::projection_bias], d[deferred::d_projected],
                                      s[saved::heads]);
        stream.linear_backward_weight(g[parameter::attention_weight], g[parameter::attention_bias],
                                      d[deferred::d_qkv], s[saved::normed_1]);
        stream.norm_backward_weight(g[parameter::norm_1_weight], g[parameter::norm_1_bias],
                                    d[deferred::d_normed_1], t.inputs[0], s[saved::mean_1],
                                    s[saved::inverse_1]);
    }

  private:
    void drop(device::Stream& stream, Tensor out, Tensor x, int place, const Pass& pass) const {
        if (const auto mask = dropout(dropout_, place, pass)) {
            stream.dropout(out, x, *mask);
        } else if (out.data != x.data) {
            stream.copy(out, x);
        }
    }

    double dropout_;
};

std::vector<ParameterSpec> block_parameters(const GptShape& shape) {
    const std::int64_t c = shape.channels();
    constexpr auto zeros = Initial::Kind::zeros;
    constexpr auto ones = Initial::Kind::ones;
    constexpr double deviation = 0.02;
    // Each block adds to the residual stream twice; this keeps its variance from growing with
    // depth.
    const double residual_deviation = deviation / std::sqrt(2.0 * shape.config.blocks);
    return {shape.vector("norm_1.weight", c, ones),
            shape.vector("norm_1.bias", c, zeros),
            shape.matrix("attention.weight", 3 * c, c, deviation),
            shape.vector("attention.bias", 3 * c, zeros),
            shape.matrix("projection.weight", c, c, residual_deviation),
            shape.vector("projection.bias", c, zeros),
            shape.vector("norm_2.weight", c, ones),
            shape.vector("norm_2.bias", c, zeros),
            shape.matrix("expand.weight", 4 * c, c, deviation),
            shape.vector("expand.bias", 4 * c, zeros),
            shape.matrix("contract.weight", c, 4 * c, residual_deviation),
            shape.vector("contract.bias", c, zeros)};
}

}  // namespace

std::unique_ptr<Layer> make_block(const GptShape& shape, LayerId id) {
    const std::int64_t c = shape.channels();
    LayerSpec spec;
    spec.name = "block." + std::to_string(id.value() - 1);
    spec.parameters = block_parameters(shape);
    spec.reads = {"hidden"};
    spec.writes = {shape.hidden()};
    spec.saved = {
        shape.per_token("mean_1"),
        shape.per_token("inverse_1"),
        shape.activation("normed_1", c),
        shape.activation("qkv", 3 * c),
        {"log_sum", Shape{shape.rows, shape.config.heads, shape.positions()}, shape.dtype},
        shape.activation("heads", c),
        shape.activation("middle", c),
        shape.per_token("mean_2"),
        shape.per_token("inverse_2"),
        shape.activation("normed_2", c),
        shape.activation("expanded", 4 * c),
        shape.activation("bent", 4 * c)};
    spec.deferred = {shape.activation("d_normed_1", c),     shape.activation("d_qkv", 3 * c),
                     shape.activation("d_projected", c),    shape.activation("d_normed_2", c),
                     shape.activation("d_expanded", 4 * c), shape.activation("d_contracted", c)};
    spec.scratch = {shape.activation("narrow", c), shape.activation("narrow_2", c),
                    shape.activation("wide", 4 * c)};

    // Products of the four matrices (12 C^2 weights), and of queries, keys, values and their
    // gradients: two T x T products per head forward, five backward (one of them the scores again).
    const auto tokens = static_cast<double>(shape.tokens());
    const auto channels = static_cast<double>(c);
    const double matrices = 24.0 * tokens * channels * channels;
    const double square = 2.0 * tokens * static_cast<double>(shape.positions()) * channels;
    spec.forward_flops = matrices + 2 * square;
    spec.backward_input_flops = matrices + 5 * square;
    spec.backward_weight_flops = matrices;
    return std::make_unique<Block>(std::move(spec), id, shape.config.dropout);
}

}  // namespace rhizome::model
