// One layer on its own, known by its interface alone: all memory is made from its spec and from the
// wires that the network brings it.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/network.hpp"
#include "support/workbench.hpp"

namespace rhizome::tests {

class LayerBench {
  public:
    using Fields = std::map<std::string, device::Tensor>;

    /// Parameters, inputs, gradients of outputs and of parameters are random; the rest is poisoned.
    LayerBench(Workbench& bench, const model::Network& network, LayerId id, const Fields& fields,
               std::uint64_t seed)
        : bench_{bench}, layer_{network.layer(id)}, seed_{seed} {
        const model::LayerSpec& spec = layer_.spec();
        for (const model::ParameterSpec& parameter : spec.parameters) {
            add_random("parameters", parameter.spec);
            add_random("gradients", parameter.spec);
        }
        for (const std::string& field : spec.fields) tensors_["fields"].push_back(fields.at(field));
        for (const model::WireValue value : network.values_read(id)) {
            const auto& wire =
                network.layer(value.writer).spec().writes[static_cast<std::size_t>(value.output)];
            add_random("inputs", wire);
            add_poisoned("d_inputs", wire);
        }
        for (const TensorSpec& wire : spec.writes) {
            add_poisoned("outputs", wire);
            add_random("d_outputs", wire);
        }
        for (const TensorSpec& tensor : spec.saved) add_poisoned("saved", tensor);
        for (const TensorSpec& tensor : spec.deferred) add_poisoned("deferred", tensor);
        for (const TensorSpec& tensor : spec.scratch) add_poisoned("scratch", tensor);
        add_poisoned("loss", {"loss", Shape{}, DType::f64});
    }

    void forward(const model::Pass& pass) { layer_.forward(bench_.stream(), pass, memory()); }
    void backward_input(const model::Pass& pass) {
        layer_.backward_input(bench_.stream(), pass, memory());
    }
    void backward_weight(const model::Pass& pass) {
        layer_.backward_weight(bench_.stream(), pass, memory());
    }

    /// The tensors of one kind ("parameters", "d_inputs", ...), in the order of the spec.
    [[nodiscard]] const std::vector<device::Tensor>& of(const std::string& kind) {
        return tensors_[kind];
    }
    void poison(const std::string& kind) {
        for (const device::Tensor& tensor : of(kind)) bench_.poison(tensor);
    }

    using Bytes = std::vector<std::vector<std::byte>>;
    [[nodiscard]] Bytes bytes(const std::string& kind) {
        Bytes result;
        for (const device::Tensor& tensor : of(kind)) result.push_back(bench_.bytes(tensor));
        return result;
    }

    /// Checks that all tensors of other kinds keep their bits.
    void expect_writes_only(const std::set<std::string>& kinds,
                            const std::function<void()>& action) {
        std::map<std::string, Bytes> before;
        for (const auto& [kind, unused] : tensors_) before[kind] = bytes(kind);
        action();
        for (const auto& [kind, old] : before) {
            if (kinds.contains(kind)) continue;
            EXPECT_EQ(bytes(kind), old) << kind << " was written";
        }
    }

  private:
    void add_random(const std::string& kind, const TensorSpec& spec) {
        tensors_[kind].push_back(bench_.random(spec.shape, spec.dtype, ++seed_));
    }
    void add_poisoned(const std::string& kind, const TensorSpec& spec) {
        tensors_[kind].push_back(bench_.poisoned(spec.shape, spec.dtype));
    }
    [[nodiscard]] model::LayerTensors memory() {
        return {.parameters = tensors_["parameters"],
                .fields = tensors_["fields"],
                .inputs = tensors_["inputs"],
                .outputs = tensors_["outputs"],
                .saved = tensors_["saved"],
                .scratch = tensors_["scratch"],
                .loss = tensors_["loss"].front(),
                .d_outputs = tensors_["d_outputs"],
                .d_inputs = tensors_["d_inputs"],
                .deferred = tensors_["deferred"],
                .gradients = tensors_["gradients"]};
    }

    Workbench& bench_;
    const model::Layer& layer_;
    std::uint64_t seed_;
    std::map<std::string, std::vector<device::Tensor>> tensors_;
};

}  // namespace rhizome::tests
