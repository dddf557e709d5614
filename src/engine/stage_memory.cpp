#include "engine/stage_memory.hpp"

#include <algorithm>

namespace rhizome::engine {

using device::Tensor;
using model::LayerTensors;
using model::Pass;
using model::TensorSet;
using model::WireValue;

namespace {

TensorSpec of_all_rows(const TensorSpec& field, std::int32_t rows) {
    ENSURE(field.shape.dimensions() == 1);
    return {field.name, Shape{rows, field.shape[0]}, field.dtype};
}

std::vector<Tensor> views_of(const device::Memory& memory, const device::Layout& layout,
                             const std::vector<TensorSpec>& specs, std::size_t& next) {
    std::vector<Tensor> views;
    for (const TensorSpec& spec : specs) views.push_back(memory.at(layout.offsets[next++], spec));
    return views;
}

void append(std::vector<TensorSpec>& to, const std::vector<TensorSpec>& from) {
    to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

struct StageMemory::Plan {
    Plan(const model::Network& network, LayerRange range, std::span<const TensorSpec> all_fields,
         std::int32_t rows)
        : layers{range} {
        if (range.first > 0) entering = network.values_behind(LayerId{range.first - 1});
        leaving = network.values_behind(LayerId{range.last - 1});
        for (const WireValue value : entering) add_value(network, value, Home::slot);
        for (const WireValue value : leaving) add_value(network, value, Home::slot);
        for (std::int32_t i = range.first; i < range.last; ++i) {
            add_layer(network, LayerId{i}, all_fields);
        }
        for (const std::size_t field : fields_in_data) {
            fields.push_back(all_fields[field]);
            slot_fields.push_back(of_all_rows(all_fields[field], rows));
        }
    }

    /// In the order of the lists of Slot, of WorkArea.
    [[nodiscard]] std::vector<TensorSpec> slot_specs() const {
        std::vector<TensorSpec> specs = slot_fields;
        append(specs, slot_values);
        append(specs, slot_values);
        return specs;
    }
    [[nodiscard]] std::vector<TensorSpec> work_specs() const {
        std::vector<TensorSpec> specs = work_values;
        append(specs, work_values);
        append(specs, aside);
        for (const auto& layer : saved) append(specs, layer);
        for (const auto& layer : deferred) append(specs, layer);
        return specs;
    }
    [[nodiscard]] std::int64_t scratch_bytes() const {
        std::int64_t bytes = 0;
        for (const auto& layer : scratch) bytes = std::max(bytes, device::Layout{layer}.bytes);
        return bytes;
    }

    LayerRange layers;
    std::vector<WireValue> entering;
    std::vector<WireValue> leaving;
    std::map<WireValue, Spot> spots;
    std::vector<TensorSpec> fields;  // of one row
    std::vector<std::size_t> fields_in_data;
    std::vector<TensorSpec> slot_fields;
    std::vector<TensorSpec> slot_values;
    std::vector<TensorSpec> work_values;
    std::vector<TensorSpec> aside;
    std::vector<std::vector<TensorSpec>> saved;  // by layer of the stage, like the next two
    std::vector<std::vector<TensorSpec>> deferred;
    std::vector<std::vector<TensorSpec>> scratch;
    std::vector<LayerSpots> layer_spots;

  private:
    static const TensorSpec& spec_of(const model::Network& network, WireValue value) {
        return network.layer(value.writer).spec().writes[static_cast<std::size_t>(value.output)];
    }

    void add_value(const model::Network& network, WireValue value, Home home) {
        auto& list = home == Home::slot ? slot_values : work_values;
        if (spots.try_emplace(value, Spot{home, list.size()}).second) {
            list.push_back(spec_of(network, value));
        }
    }

    void add_layer(const model::Network& network, LayerId id,
                   std::span<const TensorSpec> all_fields) {
        const model::LayerSpec& spec = network.layer(id).spec();
        LayerSpots layer;
        for (const std::string& name : spec.fields) {
            const auto field = static_cast<std::size_t>(
                std::find_if(all_fields.begin(), all_fields.end(),
                             [&](const TensorSpec& each) { return each.name == name; }) -
                all_fields.begin());
            ENSURE(field < all_fields.size());
            const auto known = std::find(fields_in_data.begin(), fields_in_data.end(), field);
            layer.fields.push_back(static_cast<std::size_t>(known - fields_in_data.begin()));
            if (known == fields_in_data.end()) fields_in_data.push_back(field);
        }
        for (const WireValue value : network.values_read(id)) {
            Share share{.gradient = spots.at(value)};
            if (network.last_reader(value) != id) {
                share.aside = aside.size();
                aside.push_back(spec_of(network, value));
            }
            layer.inputs.push_back(spots.at(value));
            layer.shares.push_back(share);
        }
        for (std::int32_t output = 0; output < static_cast<std::int32_t>(spec.writes.size());
             ++output) {
            const WireValue value{id, output};
            add_value(network, value, Home::work_area);  // unless it leaves the stage
            layer.outputs.push_back(spots.at(value));
        }
        saved.push_back(spec.saved);
        deferred.push_back(spec.deferred);
        scratch.push_back(spec.scratch);
        layer_spots.push_back(std::move(layer));
    }
};

std::int64_t StageMemory::planned_bytes(const model::Network& network, LayerRange layers,
                                        std::span<const TensorSpec> fields, std::int32_t rows,
                                        Counts counts) {
    const Plan plan{network, layers, fields, rows};
    return counts.slots * device::Layout{plan.slot_specs()}.bytes +
           counts.work_areas * device::Layout{plan.work_specs()}.bytes + plan.scratch_bytes();
}

StageMemory::StageMemory(device::Device& device, device::Stream& stream,
                         const model::Network& network, LayerRange layers,
                         std::span<const TensorSpec> fields, std::int32_t rows, Counts counts)
    : network_{network}, layers_{layers}, rows_{rows} {
    const Plan plan{network, layers, fields, rows};
    fields_ = plan.fields;
    fields_in_data_ = plan.fields_in_data;
    spots_ = plan.layer_spots;
    for (std::int32_t i = 0; i < counts.slots; ++i) add_slot(device, stream, plan);
    for (std::int32_t i = 0; i < counts.work_areas; ++i) add_work_area(device, plan);
    scratch_memory_ = device.allocate(plan.scratch_bytes());
    for (const auto& specs : plan.scratch) {
        std::size_t next = 0;
        scratch_.push_back(views_of(scratch_memory_, device::Layout{specs}, specs, next));
    }
}

void StageMemory::add_slot(device::Device& device, device::Stream& stream, const Plan& plan) {
    const std::vector<TensorSpec> specs = plan.slot_specs();
    const device::Layout layout{specs};
    Slot slot;
    slot.memory = device.allocate(layout.bytes);
    std::size_t next = 0;
    slot.fields = views_of(slot.memory, layout, plan.slot_fields, next);
    slot.values = views_of(slot.memory, layout, plan.slot_values, next);
    slot.gradients = views_of(slot.memory, layout, plan.slot_values, next);
    for (const TensorSpec& field : plan.slot_fields) {
        slot.staging.emplace_back(static_cast<std::size_t>(field.bytes()));
    }
    // A wire that nobody reads any more still crosses the border, and so does its gradient.
    for (const Tensor& tensor : slot.gradients) stream.zero(tensor);
    for (const WireValue value : plan.entering) {
        slot.entering.push_back(slot.values[plan.spots.at(value).place]);
        slot.entering_gradients.push_back(slot.gradients[plan.spots.at(value).place]);
    }
    for (const WireValue value : plan.leaving) {
        slot.leaving.push_back(slot.values[plan.spots.at(value).place]);
        slot.leaving_gradients.push_back(slot.gradients[plan.spots.at(value).place]);
    }
    slots_.push_back(std::move(slot));
}

void StageMemory::add_work_area(device::Device& device, const Plan& plan) {
    const std::vector<TensorSpec> specs = plan.work_specs();
    const device::Layout layout{specs};
    WorkArea area;
    area.memory = device.allocate(layout.bytes);
    std::size_t next = 0;
    area.values = views_of(area.memory, layout, plan.work_values, next);
    area.gradients = views_of(area.memory, layout, plan.work_values, next);
    area.aside = views_of(area.memory, layout, plan.aside, next);
    for (const auto& layer : plan.saved) {
        area.saved.push_back(views_of(area.memory, layout, layer, next));
    }
    for (const auto& layer : plan.deferred) {
        area.deferred.push_back(views_of(area.memory, layout, layer, next));
    }
    work_areas_.push_back(std::move(area));
}

std::span<const Tensor> StageMemory::entering(std::size_t slot) const {
    return slots_[slot].entering;
}
std::span<const Tensor> StageMemory::leaving(std::size_t slot) const {
    return slots_[slot].leaving;
}
std::span<const Tensor> StageMemory::entering_gradients(std::size_t slot) const {
    return slots_[slot].entering_gradients;
}
std::span<const Tensor> StageMemory::leaving_gradients(std::size_t slot) const {
    return slots_[slot].leaving_gradients;
}

const device::Event* StageMemory::loaded(std::size_t slot) const {
    return slots_[slot].loaded.get();
}

void StageMemory::load(device::Stream& stream, std::size_t slot, const data::Dataset& dataset,
                       std::span<const std::int64_t> samples) {
    Slot& to = slots_[slot];
    if (to.fields.empty()) return;
    ENSURE(to.loaded == nullptr || to.loaded->done());
    ENSURE(static_cast<std::int32_t>(samples.size()) == rows_);
    for (std::size_t field = 0; field < fields_.size(); ++field) {
        const auto row_bytes = static_cast<std::size_t>(fields_[field].bytes());
        for (std::size_t row = 0; row < samples.size(); ++row) {
            dataset.read(samples[row], fields_in_data_[field],
                         std::span{to.staging[field]}.subspan(row * row_bytes, row_bytes));
        }
        stream.upload(to.fields[field], to.staging[field]);
    }
    to.loaded = stream.record();
}

std::size_t StageMemory::local(LayerId id) const {
    ENSURE(layers_.contains(id));
    return static_cast<std::size_t>(id.value() - layers_.first);
}

const StageMemory::LayerSpots& StageMemory::spots_of(LayerId id) const { return spots_[local(id)]; }

Tensor StageMemory::value_at(Spot spot, const Place& place) const {
    return spot.home == Home::slot ? slots_[place.slot].values[spot.place]
                                   : work_areas_[place.work_area].values[spot.place];
}

Tensor StageMemory::gradient_at(Spot spot, const Place& place) const {
    return spot.home == Home::slot ? slots_[place.slot].gradients[spot.place]
                                   : work_areas_[place.work_area].gradients[spot.place];
}

LayerTensors StageMemory::tensors_of(LayerId id, const Place& place, const TensorSet& parameters) {
    const LayerSpots& spots = spots_of(id);
    const WorkArea& area = work_areas_[place.work_area];
    views_.fields.clear();
    views_.inputs.clear();
    views_.outputs.clear();
    views_.d_outputs.clear();
    views_.d_inputs.clear();
    for (const std::size_t field : spots.fields) {
        views_.fields.push_back(slots_[place.slot].fields[field]);
    }
    for (const Spot spot : spots.inputs) views_.inputs.push_back(value_at(spot, place));
    for (const Spot spot : spots.outputs) {
        views_.outputs.push_back(value_at(spot, place));
        views_.d_outputs.push_back(gradient_at(spot, place));
    }
    for (const Share& share : spots.shares) {
        views_.d_inputs.push_back(share.aside ? area.aside[*share.aside]
                                              : gradient_at(share.gradient, place));
    }
    return {.parameters = parameters.of(id),
            .fields = views_.fields,
            .inputs = views_.inputs,
            .outputs = views_.outputs,
            .saved = area.saved[local(id)],
            .scratch = scratch_[local(id)],
            .loss = place.loss,
            .d_outputs = views_.d_outputs,
            .d_inputs = views_.d_inputs,
            .deferred = area.deferred[local(id)],
            .gradients = {}};
}

void StageMemory::forward(device::Stream& stream, const Pass& pass, LayerId layer,
                          const Place& place, const TensorSet& parameters) {
    network_.layer(layer).forward(stream, pass, tensors_of(layer, place, parameters));
}

void StageMemory::backward_input(device::Stream& stream, const Pass& pass, LayerId layer,
                                 const Place& place, const TensorSet& parameters) {
    network_.layer(layer).backward_input(stream, pass, tensors_of(layer, place, parameters));
    for (const Share& share : spots_of(layer).shares) {
        if (!share.aside) continue;
        const Tensor sum = gradient_at(share.gradient, place);
        stream.add(sum, sum, work_areas_[place.work_area].aside[*share.aside]);
    }
}

void StageMemory::backward_weight(device::Stream& stream, const Pass& pass, LayerId layer,
                                  const Place& place, const TensorSet& parameters,
                                  const TensorSet& gradients) {
    LayerTensors tensors = tensors_of(layer, place, parameters);
    tensors.gradients = gradients.of(layer);
    network_.layer(layer).backward_weight(stream, pass, tensors);
}

}  // namespace rhizome::engine
