// Memory for one microbatch on its way through the layers, and the calls that move it along. Memory
// is laid out once and used again by every microbatch that takes the slot.
//
// With engine::Recompute::all only wires are kept from forward to backward; what a layer saves is
// made again by repeating its forward pass. The random numbers of dropout depend on the place and
// not on the time, so the repetition is exact.
#pragma once

#include <optional>
#include <vector>

#include "data/dataset.hpp"
#include "engine/recompute.hpp"
#include "model/network.hpp"
#include "model/parameters.hpp"

namespace rhizome::oracle {

class MicrobatchSlot {
  public:
    /// For microbatches of `rows` samples with these fields.
    MicrobatchSlot(device::Device& device, const model::Network& network,
                   std::span<const TensorSpec> fields, std::int32_t rows,
                   engine::Recompute recompute);

    /// Device memory that such a slot takes.
    [[nodiscard]] static std::int64_t planned_bytes(const model::Network& network,
                                                    std::span<const TensorSpec> fields,
                                                    std::int32_t rows, engine::Recompute recompute);
    [[nodiscard]] std::int64_t bytes() const;

    /// Brings in the data of these samples, one per row.
    void load(device::Stream& stream, const data::Dataset& dataset,
              std::span<const std::int64_t> samples);

    void forward(device::Stream& stream, const model::Pass& pass, LayerId layer,
                 const model::TensorSet& parameters);
    /// Layers must come in descending order, each after its forward.
    void backward_input(device::Stream& stream, const model::Pass& pass, LayerId layer,
                        const model::TensorSet& parameters);
    /// Adds to `gradients`. At any time between the layer's backward_input and the next load; with
    /// engine::Recompute::all, before another layer's turn.
    void backward_weight(device::Stream& stream, const model::Pass& pass, LayerId layer,
                         const model::TensorSet& parameters, const model::TensorSet& gradients);

    /// Sum of the microbatch's loss terms; waits for the stream.
    [[nodiscard]] double loss(device::Stream& stream) const;

  private:
    /// Tensors of one layer and this microbatch.
    struct LayerMemory {
        std::vector<device::Tensor> fields;
        std::vector<device::Tensor> inputs;
        std::vector<device::Tensor> outputs;
        std::vector<device::Tensor> saved;
        std::vector<device::Tensor> scratch;
        std::vector<device::Tensor> d_outputs;
        std::vector<device::Tensor> d_inputs;
        std::vector<device::Tensor> deferred;
        /// Where d_inputs[i] is to be added when a later layer read the same value before: the
        /// value's gradient. Empty when d_inputs[i] is that gradient.
        std::vector<std::optional<device::Tensor>> d_inputs_added_to;
    };

    void lay_out(device::Device& device);
    void connect(LayerId id);
    [[nodiscard]] model::LayerTensors tensors_of(LayerId id,
                                                 const model::TensorSet& parameters) const;
    device::Tensor add_memory(device::Device& device, const TensorSpec& spec);
    std::vector<device::Tensor> add_memory(device::Device& device,
                                           std::span<const TensorSpec> specs);

    const model::Network& network_;
    engine::Recompute recompute_;
    std::vector<TensorSpec> fields_;               // of one row
    std::vector<device::Tensor> field_tensors_;    // of all rows
    std::vector<std::vector<std::byte>> staging_;  // host side of the fields
    device::Tensor loss_;
    std::vector<LayerMemory> layers_;
    std::vector<device::Memory> memory_;
    std::optional<LayerId> saved_holder_;  // whose saved tensors lie in the shared memory
};

}  // namespace rhizome::oracle
