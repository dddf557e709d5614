#include "engine/generator.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/random.hpp"

namespace rhizome::engine {
namespace {

/// Nothing here is cut into chunks, but a table of layers has a size of them.
constexpr std::int64_t any_chunk_elements = 65536;

model::Network network_of(const model::GptConfig& config, DType dtype) {
    return model::make_gpt(config, 1, dtype, any_chunk_elements);
}

std::int64_t largest_tensor_bytes(const LayerTable& table) {
    std::int64_t bytes = 0;
    for (const TensorRef owned : table.owned()) {
        bytes = std::max(bytes, table.at(owned).spec.bytes());
    }
    return bytes;
}

model::TensorSet loaded(device::Device& device, device::Stream& stream, const LayerTable& table,
                        const ReadTensor& read) {
    model::TensorSet parameters{device, table, model::TiedTensors::shared};
    std::vector<std::byte> values;
    std::int32_t place = 0;
    for (const TensorRef owned : table.owned()) {
        values.resize(static_cast<std::size_t>(table.at(owned).spec.bytes()));
        read(place++, values);
        stream.upload(parameters.at(owned), values);
        stream.synchronize();  // before `values` gets the next
    }
    return parameters;
}

}  // namespace

Generator::Generator(device::Device& device, const model::GptConfig& config, DType dtype,
                     const ReadTensor& read)
    : device_{device},
      config_{config},
      dtype_{dtype},
      stream_{device.make_stream()},
      parameters_{loaded(device, *stream_, network_of(config, dtype).table(), read)} {}

std::int32_t Generator::length_for(std::size_t tokens, std::int32_t context) {
    const auto longest = static_cast<std::size_t>(context);
    return static_cast<std::int32_t>(std::min(std::bit_ceil(std::min(tokens, longest)), longest));
}

std::int64_t Generator::planned_bytes(const model::GptConfig& config, DType dtype,
                                      std::int64_t tokens) {
    ENSURE(tokens >= 1);
    const model::Network network = network_of(config, dtype);
    const LayerTable& table = network.table();
    const std::int32_t length = length_for(static_cast<std::size_t>(tokens), config.context);
    return model::TensorSet::planned_bytes(table, model::TiedTensors::shared) +
           std::max(largest_tensor_bytes(table), GptForward::planned_bytes(config, dtype, length));
}

std::vector<double> Generator::logits(std::span<const std::int32_t> tokens) {
    ENSURE(!tokens.empty());
    const std::int32_t length = length_for(tokens.size(), config_.context);
    if (!forward_ || forward_->length() != length) {
        forward_.reset();  // its memory first
        forward_.emplace(device_, config_, dtype_, length);
    }
    const std::size_t seen = std::min(tokens.size(), static_cast<std::size_t>(length));
    return forward_->logits(*stream_, parameters_, tokens.last(seen));
}

std::int32_t Generator::next(std::span<const std::int32_t> tokens, const Sampling& sampling) {
    const std::vector<double> all = logits(tokens);
    if (!std::all_of(all.begin(), all.end(), [](double logit) { return std::isfinite(logit); })) {
        throw DataError{
            "the network's output is not finite (its training diverged, or these are no weights of "
            "a GPT), take an earlier state"};
    }
    const std::size_t count =
        sampling.tokens_below == 0 ? all.size() : static_cast<std::size_t>(sampling.tokens_below);
    const auto words =
        RandomSite::generation(sampling.seed).words(static_cast<std::uint32_t>(tokens.size()));
    return choose_token(std::span{all}.first(std::min(count, all.size())), sampling.rule,
                        uniform(words[0], words[1]));
}

}  // namespace rhizome::engine
