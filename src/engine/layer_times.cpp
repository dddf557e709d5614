#include "engine/layer_times.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>

#include "engine/stage_memory.hpp"
#include "model/optimizer.hpp"
#include "model/parameters.hpp"

namespace rhizome::engine {
namespace {

using device::Tensor;
using device::Work;
using model::TensorSet;
using model::TiedTensors;

constexpr std::uint64_t seed = 1;
constexpr std::size_t passes_min = 3;
constexpr std::size_t passes_max = 51;

/// Rows of whole numbers below a limit, the same in each place on every call.
class AnyTokens final : public data::Dataset {
  public:
    AnyTokens(std::span<const TensorSpec> fields, std::int64_t limit)
        : fields_{fields}, limit_{limit} {}

    std::int64_t samples() const override { return 1 << 20; }
    std::span<const TensorSpec> fields() const override { return fields_; }
    void read(std::int64_t sample, std::size_t field, std::span<std::byte> row) const override {
        ENSURE(fields_[field].dtype == DType::i32);
        for (std::size_t i = 0; i < row.size() / sizeof(std::int32_t); ++i) {
            const std::uint64_t place =
                static_cast<std::uint64_t>(sample) * row.size() + i + 1000 * field;
            // An odd factor: neighbours lie far apart, as words of a text do.
            const auto token =
                static_cast<std::int32_t>(place * 2654435761U % static_cast<std::uint64_t>(limit_));
            std::memcpy(row.data() + i * sizeof token, &token, sizeof token);
        }
    }
    std::int64_t loss_terms(std::int64_t /*sample*/) const override {
        return fields_[0].shape.elements();
    }

  private:
    std::span<const TensorSpec> fields_;
    std::int64_t limit_;
};

/// Parameters, gradients and two moments of a layer.
constexpr int sets = 4;

/// More than caches keep.
const TensorSpec elsewhere_spec{"elsewhere", Shape{std::int64_t{16} << 20}, DType::f32};

/// One layer with all that it works on.
class LayerAtWork {
  public:
    LayerAtWork(device::Device& device, const model::Network& network, LayerId id,
                const MeasuringConfig& config)
        : network_{network},
          id_{id},
          stream_{device.make_stream()},
          layers_{id.value(), id.value() + 1},
          memory_{device, *stream_, network, layers_, config.fields, config.rows, {1, 1}},
          parameters_{device, network.table(), TiedTensors::separate, std::span{&layers_, 1}},
          gradients_{device, network.table(), TiedTensors::separate, std::span{&layers_, 1}},
          first_moments_{device, network.table(), TiedTensors::separate, std::span{&layers_, 1}},
          second_moments_{device, network.table(), TiedTensors::separate, std::span{&layers_, 1}},
          scalars_{device.allocate(2 * device::Layout::alignment)},
          elsewhere_{device.allocate(elsewhere_spec.bytes())} {
        const std::vector<LayerFacts>& layers = network.table().layers;
        const auto tensors = static_cast<std::int32_t>(layers[id.index()].parameters.size());
        for (std::int32_t t = 0; t < tensors; ++t) {
            const TensorRef tensor{id, t};
            const auto bytes =
                model::initial_bytes(network, seed, network.table().owner_of(tensor));
            stream_->upload(parameters_.at(tensor), bytes);
            stream_->synchronize();  // before `bytes` goes
        }
        for (const TensorSet* set : {&gradients_, &first_moments_, &second_moments_}) {
            if (set->bytes() > 0) stream_->zero(set->whole());
        }
        for (const Tensor& wire : memory_.entering(0)) fill(wire, 1.0);
        for (const Tensor& wire : memory_.leaving_gradients(0)) fill(wire, 1e-3);
        const AnyTokens tokens{config.fields, config.token_limit};
        std::vector<std::int64_t> samples(static_cast<std::size_t>(config.rows));
        for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<std::int64_t>(i);
        memory_.load(*stream_, 0, tokens, samples);
        stream_->synchronize();
    }

    void forward() {
        begin(Work::Part::forward);
        memory_.forward(*stream_, pass_, id_, place(), parameters_);
    }
    void backward_input() {
        begin(Work::Part::backward_input);
        memory_.backward_input(*stream_, pass_, id_, place(), parameters_);
    }
    void backward_weight() {
        begin(Work::Part::backward_weight);
        memory_.backward_weight(*stream_, pass_, id_, place(), parameters_, gradients_);
    }
    /// Chunk by chunk, as workers do.
    void update() {
        const LayerTable& table = network_.table();
        const auto& parameters = table.layers[id_.index()].parameters;
        for (std::size_t t = 0; t < parameters.size(); ++t) {
            const TensorRef tensor{id_, static_cast<std::int32_t>(t)};
            if (parameters[t].tied_to) continue;
            for (std::int32_t c = 0; c < table.chunks_of(tensor); ++c) {
                const ChunkRef chunk{tensor, c};
                const Tensor gradient = gradients_.at(table, chunk);
                stream_->sum_of_squares(scalar(1), gradient);
                stream_->begin({.part = Work::Part::update, .elements = gradient.elements()});
                stream_->adamw(parameters_.at(table, chunk), first_moments_.at(table, chunk),
                               second_moments_.at(table, chunk), gradient,
                               model::adamw_step({}, Step{0}, 1.0, parameters[t].decay));
            }
        }
    }
    void finish() { stream_->synchronize(); }
    /// As in a run, where other layers come between two passes through this one.
    void forget() {
        stream_->zero(elsewhere_.at(0, elsewhere_spec));
        stream_->synchronize();
    }

  private:
    void begin(Work::Part part) { stream_->begin({.part = part, .layer = id_}); }
    [[nodiscard]] Tensor scalar(std::int64_t place) const {
        return scalars_.at(place * device::Layout::alignment, {"scalar", Shape{}, DType::f64});
    }
    [[nodiscard]] StageMemory::Place place() const { return {0, 0, scalar(0)}; }

    /// With numbers between -size and size.
    void fill(const Tensor& wire, double size) {
        const auto number = [size](std::int64_t i) {
            const auto mixed = static_cast<std::uint32_t>(i) * 2654435761U;
            return size * (static_cast<double>(mixed) / 2147483648.0 - 1.0);
        };
        std::vector<std::byte> bytes(static_cast<std::size_t>(wire.bytes()));
        const auto put = [&](auto zero) {
            for (std::int64_t i = 0; i < wire.elements(); ++i) {
                const auto value = static_cast<decltype(zero)>(number(i));
                std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof value, &value,
                            sizeof value);
            }
        };
        if (wire.dtype == DType::f32) put(0.0F);
        if (wire.dtype == DType::f64) put(0.0);
        stream_->upload(wire, bytes);
        stream_->synchronize();
    }

    const model::Network& network_;
    LayerId id_;
    std::unique_ptr<device::Stream> stream_;
    LayerRange layers_;
    StageMemory memory_;
    TensorSet parameters_;
    TensorSet gradients_;
    TensorSet first_moments_;
    TensorSet second_moments_;
    device::Memory scalars_;
    device::Memory elsewhere_;
    model::Pass pass_{.mode = model::Pass::Mode::train,
                      .seed = seed,
                      .step = Step{0},
                      .microbatch = Microbatch{0},
                      .gradient_scale = 1e-3};
};

double median(std::vector<double> times) {
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return *middle;
}

LayerTimes measure(LayerAtWork& subject, const Clock& clock, double seconds) {
    constexpr std::array parts{&LayerAtWork::forward, &LayerAtWork::backward_input,
                               &LayerAtWork::backward_weight, &LayerAtWork::update};
    std::array<std::vector<double>, parts.size()> times;
    const Nanoseconds end = clock.now() + to_nanoseconds(seconds);
    const auto wants_more = [&] {
        const std::size_t passes = times[0].size();
        return passes < passes_min || (passes < passes_max && clock.now() < end);
    };
    for (bool counts = false; wants_more(); counts = true) {
        for (std::size_t part = 0; part < parts.size(); ++part) {
            subject.forget();
            const Nanoseconds start = clock.now();
            (subject.*parts[part])();
            subject.finish();
            const Nanoseconds took = clock.now() - start;
            if (counts) times[part].push_back(std::chrono::duration<double>(took).count());
        }
    }
    return {median(times[0]), median(times[1]), median(times[2]), median(times[3])};
}

/// What two layers that do the same work agree in.
std::string work_of(const model::Network& network, LayerId id) {
    const model::LayerSpec& spec = network.layer(id).spec();
    std::string text;
    const auto add = [&](const TensorSpec& tensor) {
        text += tensor.name + " " + std::to_string(tensor.bytes()) + "\n";
    };
    for (const model::ParameterSpec& parameter : spec.parameters) {
        add(parameter.spec);
        if (parameter.tied_to) text += "tied\n";
    }
    for (const auto* list : {&spec.writes, &spec.saved, &spec.deferred, &spec.scratch}) {
        for (const TensorSpec& tensor : *list) add(tensor);
        text += "\n";
    }
    for (const std::string& field : spec.fields) text += field + "\n";
    return text + std::to_string(spec.forward_flops);
}

}  // namespace

std::int64_t planned_measuring_bytes(const model::Network& network, const MeasuringConfig& config) {
    std::int64_t most = 0;
    for (std::int32_t i = 0; i < network.size(); ++i) {
        const LayerRange layer{i, i + 1};
        const std::int64_t set =
            TensorSet::planned_bytes(network.table(), TiedTensors::separate, std::span{&layer, 1});
        most = std::max(most, sets * set + StageMemory::planned_bytes(network, layer, config.fields,
                                                                      config.rows, {1, 1}));
    }
    return most + elsewhere_spec.bytes();
}

std::vector<LayerTimes> measure_layers(device::Device& device, const model::Network& network,
                                       const MeasuringConfig& config, const Clock& clock) {
    std::map<std::string, LayerTimes> known;
    std::vector<LayerTimes> all;
    for (std::int32_t i = 0; i < network.size(); ++i) {
        const LayerId id{i};
        const std::string work = work_of(network, id);
        if (!known.contains(work)) {
            LayerAtWork subject{device, network, id, config};
            known[work] = measure(subject, clock, config.seconds);
        }
        all.push_back(known[work]);
    }
    return all;
}

}  // namespace rhizome::engine
