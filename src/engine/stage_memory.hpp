// Memory for microbatches on their way through one stage, and the calls that move one along. All of
// it is laid out once and used again by every microbatch of the run.
//
// A microbatch has a *slot* from the moment its first wire may arrive to the moment its last has
// left: its data, and the wires that cross the stage's borders with their gradients. What layers
// keep among themselves lies in a *work area*, from forward to the weight part; with recomputation
// only while forward runs, and again from the second forward to the weight part. The random numbers
// of dropout depend on the place and not on the time, so the repetition is exact.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/run_shape.hpp"
#include "data/dataset.hpp"
#include "model/network.hpp"
#include "model/parameters.hpp"

namespace rhizome::engine {

class StageMemory {
  public:
    struct Counts {
        std::int32_t slots;
        std::int32_t work_areas;
    };

    /// For microbatches of `rows` samples with these fields. The network must outlive it.
    StageMemory(device::Device& device, device::Stream& stream, const model::Network& network,
                LayerRange layers, std::span<const TensorSpec> fields, std::int32_t rows,
                Counts counts);

    /// Device memory that it takes.
    [[nodiscard]] static std::int64_t planned_bytes(const model::Network& network,
                                                    LayerRange layers,
                                                    std::span<const TensorSpec> fields,
                                                    std::int32_t rows, Counts counts);

    /// Wires at the stage's borders and their gradients, in the order of Network::values_behind.
    [[nodiscard]] std::span<const device::Tensor> entering(std::size_t slot) const;
    [[nodiscard]] std::span<const device::Tensor> leaving(std::size_t slot) const;
    [[nodiscard]] std::span<const device::Tensor> entering_gradients(std::size_t slot) const;
    [[nodiscard]] std::span<const device::Tensor> leaving_gradients(std::size_t slot) const;

    /// When the slot's data may be loaded anew; null if they never were.
    [[nodiscard]] const device::Event* loaded(std::size_t slot) const;
    /// Brings in the fields that the stage's layers read, of these samples, one per row.
    void load(device::Stream& stream, std::size_t slot, const data::Dataset& dataset,
              std::span<const std::int64_t> samples);

    /// A microbatch's place, and where its loss goes if the stage has the loss.
    struct Place {
        std::size_t slot;
        std::size_t work_area;
        device::Tensor loss;
    };
    void forward(device::Stream& stream, const model::Pass& pass, LayerId layer, const Place& place,
                 const model::TensorSet& parameters);
    /// Layers must come in descending order, each after its forward.
    void backward_input(device::Stream& stream, const model::Pass& pass, LayerId layer,
                        const Place& place, const model::TensorSet& parameters);
    /// Adds to `gradients`. Any time after the layer's input part while the place is kept.
    void backward_weight(device::Stream& stream, const model::Pass& pass, LayerId layer,
                         const Place& place, const model::TensorSet& parameters,
                         const model::TensorSet& gradients);

  private:
    enum class Home : std::uint8_t { slot, work_area };

    /// Where a wire's value lies; its gradient has the same place in another list.
    struct Spot {
        Home home;
        std::size_t place;
    };
    /// Where a layer's part of the gradient of a wire that it reads goes: to the gradient itself
    /// if this is the wire's last reader, otherwise aside, to be added to it.
    struct Share {
        Spot gradient;
        std::optional<std::size_t> aside{};  // in the work area
    };
    struct LayerSpots {
        std::vector<std::size_t> fields;
        std::vector<Spot> inputs;
        std::vector<Spot> outputs;
        std::vector<Share> shares;  // by input
    };
    /// Everything that is known before there is memory.
    struct Plan;

    struct Slot {
        device::Memory memory;
        std::vector<device::Tensor> fields;
        std::vector<std::vector<std::byte>> staging;  // host side of the fields
        std::shared_ptr<const device::Event> loaded;
        std::vector<device::Tensor> values;
        std::vector<device::Tensor> gradients;
        std::vector<device::Tensor> entering;
        std::vector<device::Tensor> leaving;
        std::vector<device::Tensor> entering_gradients;
        std::vector<device::Tensor> leaving_gradients;
    };
    struct WorkArea {
        device::Memory memory;
        std::vector<device::Tensor> values;
        std::vector<device::Tensor> gradients;
        std::vector<device::Tensor> aside;
        std::vector<std::vector<device::Tensor>> saved;     // by layer of the stage
        std::vector<std::vector<device::Tensor>> deferred;  // by layer of the stage
    };
    /// The views of one call.
    struct Views {
        std::vector<device::Tensor> fields;
        std::vector<device::Tensor> inputs;
        std::vector<device::Tensor> outputs;
        std::vector<device::Tensor> d_outputs;
        std::vector<device::Tensor> d_inputs;
    };

    void add_slot(device::Device& device, device::Stream& stream, const Plan& plan);
    void add_work_area(device::Device& device, const Plan& plan);
    [[nodiscard]] device::Tensor value_at(Spot spot, const Place& place) const;
    [[nodiscard]] device::Tensor gradient_at(Spot spot, const Place& place) const;
    [[nodiscard]] model::LayerTensors tensors_of(LayerId id, const Place& place,
                                                 const model::TensorSet& parameters);
    [[nodiscard]] const LayerSpots& spots_of(LayerId id) const;
    [[nodiscard]] std::size_t local(LayerId id) const;

    const model::Network& network_;
    LayerRange layers_;
    std::int32_t rows_;
    std::vector<TensorSpec> fields_;           // of one row, those that the stage reads
    std::vector<std::size_t> fields_in_data_;  // their places in the data set
    std::vector<LayerSpots> spots_;            // by layer of the stage
    std::vector<Slot> slots_;
    std::vector<WorkArea> work_areas_;
    // Of no worth after a call, and there is one stream, so all layers share it.
    device::Memory scratch_memory_;
    std::vector<std::vector<device::Tensor>> scratch_;  // by layer of the stage
    Views views_;
};

}  // namespace rhizome::engine
