#include "oracle/microbatch_slot.hpp"

#include <algorithm>

namespace rhizome::oracle {

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

TensorSpec loss_spec() { return {"loss", Shape{}, DType::f64}; }

}  // namespace

std::int64_t MicrobatchSlot::planned_bytes(const model::Network& network,
                                           std::span<const TensorSpec> fields, std::int32_t rows,
                                           engine::Recompute recompute) {
    const auto bytes = [](std::span<const TensorSpec> specs) {
        return device::Layout{specs}.bytes;
    };
    const TensorSpec loss = loss_spec();
    std::int64_t kept = bytes(std::span{&loss, 1});
    std::int64_t scratch = 0;
    std::int64_t saved = 0;
    for (const TensorSpec& field : fields) {
        const TensorSpec all_rows = of_all_rows(field, rows);
        kept += bytes(std::span{&all_rows, 1});
    }
    for (std::int32_t i = 0; i < network.size(); ++i) {
        const model::LayerSpec& spec = network.layer(LayerId{i}).spec();
        kept += 2 * bytes(spec.writes) + bytes(spec.deferred);
        scratch = std::max(scratch, bytes(spec.scratch));
        saved = recompute == engine::Recompute::all ? std::max(saved, bytes(spec.saved))
                                                    : saved + bytes(spec.saved);
        for (const WireValue value : network.values_read(LayerId{i})) {
            if (network.last_reader(value) == LayerId{i}) continue;
            kept += bytes(std::span{
                &network.layer(value.writer).spec().writes[static_cast<std::size_t>(value.output)],
                1});
        }
    }
    return kept + scratch + saved;
}

std::int64_t MicrobatchSlot::bytes() const {
    std::int64_t bytes = 0;
    for (const device::Memory& memory : memory_) bytes += memory.bytes();
    return bytes;
}

MicrobatchSlot::MicrobatchSlot(device::Device& device, const model::Network& network,
                               std::span<const TensorSpec> fields, std::int32_t rows,
                               engine::Recompute recompute)
    : network_{network}, recompute_{recompute}, fields_{fields.begin(), fields.end()} {
    for (const TensorSpec& field : fields_) {
        const TensorSpec all_rows = of_all_rows(field, rows);
        field_tensors_.push_back(add_memory(device, all_rows));
        staging_.emplace_back(static_cast<std::size_t>(all_rows.bytes()));
    }
    loss_ = add_memory(device, loss_spec());
    lay_out(device);
    for (std::int32_t i = 0; i < network_.size(); ++i) connect(LayerId{i});
}

Tensor MicrobatchSlot::add_memory(device::Device& device, const TensorSpec& spec) {
    return add_memory(device, std::span{&spec, 1}).front();
}

std::vector<Tensor> MicrobatchSlot::add_memory(device::Device& device,
                                               std::span<const TensorSpec> specs) {
    const device::Layout layout{specs};
    memory_.push_back(device.allocate(layout.bytes));
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < specs.size(); ++i) {
        tensors.push_back(memory_.back().at(layout.offsets[i], specs[i]));
    }
    return tensors;
}

void MicrobatchSlot::lay_out(device::Device& device) {
    // Scratch is never kept, so all layers share one piece; so do saved tensors that are made
    // again.
    std::int64_t scratch_bytes = 0;
    std::int64_t saved_bytes = 0;
    for (std::int32_t i = 0; i < network_.size(); ++i) {
        const model::LayerSpec& spec = network_.layer(LayerId{i}).spec();
        scratch_bytes = std::max(scratch_bytes, device::Layout{spec.scratch}.bytes);
        saved_bytes = std::max(saved_bytes, device::Layout{spec.saved}.bytes);
    }
    const auto share = [&](std::int64_t bytes) {
        memory_.push_back(device.allocate(bytes));
        return memory_.size() - 1;
    };
    const auto place = [&](std::size_t memory, const std::vector<TensorSpec>& specs) {
        const device::Layout layout{specs};
        std::vector<Tensor> tensors;
        for (std::size_t i = 0; i < specs.size(); ++i) {
            tensors.push_back(memory_[memory].at(layout.offsets[i], specs[i]));
        }
        return tensors;
    };
    const std::size_t scratch = share(scratch_bytes);
    const std::size_t saved = share(recompute_ == engine::Recompute::all ? saved_bytes : 0);
    for (std::int32_t i = 0; i < network_.size(); ++i) {
        const model::LayerSpec& spec = network_.layer(LayerId{i}).spec();
        LayerMemory layer;
        layer.scratch = place(scratch, spec.scratch);
        layer.saved = recompute_ == engine::Recompute::all ? place(saved, spec.saved)
                                                           : add_memory(device, spec.saved);
        layer.outputs = add_memory(device, spec.writes);
        layer.d_outputs = add_memory(device, spec.writes);
        layer.deferred = add_memory(device, spec.deferred);
        for (const WireValue value : network_.values_read(LayerId{i})) {
            const auto output = static_cast<std::size_t>(value.output);
            if (network_.last_reader(value) == LayerId{i}) {
                layer.d_inputs.push_back(layers_[value.writer.index()].d_outputs[output]);
                layer.d_inputs_added_to.emplace_back(std::nullopt);
            } else {
                const auto& wire = network_.layer(value.writer).spec().writes[output];
                layer.d_inputs.push_back(add_memory(device, wire));
                layer.d_inputs_added_to.emplace_back(
                    layers_[value.writer.index()].d_outputs[output]);
            }
        }
        layers_.push_back(std::move(layer));
    }
}

void MicrobatchSlot::connect(LayerId id) {
    LayerMemory& layer = layers_[id.index()];
    for (const WireValue value : network_.values_read(id)) {
        layer.inputs.push_back(
            layers_[value.writer.index()].outputs[static_cast<std::size_t>(value.output)]);
    }
    for (const std::string& name : network_.layer(id).spec().fields) {
        const auto field = std::find_if(fields_.begin(), fields_.end(),
                                        [&](const TensorSpec& spec) { return spec.name == name; });
        ENSURE(field != fields_.end());
        layer.fields.push_back(field_tensors_[static_cast<std::size_t>(field - fields_.begin())]);
    }
}

void MicrobatchSlot::load(device::Stream& stream, const data::Dataset& dataset,
                          std::span<const std::int64_t> samples) {
    ENSURE(dataset.fields().size() == fields_.size());
    saved_holder_.reset();
    stream.synchronize();  // the last upload may still read the staging memory
    for (std::size_t field = 0; field < fields_.size(); ++field) {
        const auto row_bytes = static_cast<std::size_t>(fields_[field].bytes());
        ENSURE(staging_[field].size() == row_bytes * samples.size());
        for (std::size_t row = 0; row < samples.size(); ++row) {
            dataset.read(samples[row], field,
                         std::span{staging_[field]}.subspan(row * row_bytes, row_bytes));
        }
        stream.upload(field_tensors_[field], staging_[field]);
    }
}

LayerTensors MicrobatchSlot::tensors_of(LayerId id, const TensorSet& parameters) const {
    const LayerMemory& layer = layers_[id.index()];
    return {.parameters = parameters.of(id),
            .fields = layer.fields,
            .inputs = layer.inputs,
            .outputs = layer.outputs,
            .saved = layer.saved,
            .scratch = layer.scratch,
            .loss = loss_,
            .d_outputs = layer.d_outputs,
            .d_inputs = layer.d_inputs,
            .deferred = layer.deferred,
            .gradients = {}};
}

void MicrobatchSlot::forward(device::Stream& stream, const Pass& pass, LayerId layer,
                             const TensorSet& parameters) {
    network_.layer(layer).forward(stream, pass, tensors_of(layer, parameters));
    saved_holder_ = layer;
}

void MicrobatchSlot::backward_input(device::Stream& stream, const Pass& pass, LayerId layer,
                                    const TensorSet& parameters) {
    if (recompute_ == engine::Recompute::all && saved_holder_ != layer) {
        forward(stream, pass, layer, parameters);
    }
    network_.layer(layer).backward_input(stream, pass, tensors_of(layer, parameters));
    const LayerMemory& memory = layers_[layer.index()];
    for (std::size_t i = 0; i < memory.d_inputs.size(); ++i) {
        if (const auto& sum = memory.d_inputs_added_to[i]) {
            stream.add(*sum, *sum, memory.d_inputs[i]);
        }
    }
}

void MicrobatchSlot::backward_weight(device::Stream& stream, const Pass& pass, LayerId layer,
                                     const TensorSet& parameters, const TensorSet& gradients) {
    ENSURE(recompute_ == engine::Recompute::none || saved_holder_ == layer);
    LayerTensors tensors = tensors_of(layer, parameters);
    tensors.gradients = gradients.of(layer);
    network_.layer(layer).backward_weight(stream, pass, tensors);
}

double MicrobatchSlot::loss(device::Stream& stream) const {
    double value = 0;
    stream.download(std::as_writable_bytes(std::span{&value, 1}), loss_);
    stream.synchronize();
    return value;
}

}  // namespace rhizome::oracle
