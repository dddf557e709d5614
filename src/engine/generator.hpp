// Text from a trained GPT, token by token. Each token is chosen by the logits behind those before
// it; of a text longer than the context, behind its last tokens (docs/MATHEMATICS.md, Generated
// text).
//
// Every token costs a forward pass: nothing is kept from one to the next. A short text is cheap all
// the same, because the network is made for its length, rounded up to a power of two.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/gpt_forward.hpp"
#include "engine/token_choice.hpp"

namespace rhizome::engine {

/// Reads all of an owned tensor, row-major, in the network's type. `place` is its place in
/// LayerTable::owned(), which is its place in a state's table as well. May throw.
using ReadTensor = std::function<void(std::int32_t place, std::span<std::byte> to)>;

struct Sampling {
    TokenRule rule{};
    std::uint64_t seed = 1;
    std::int32_t tokens_below = 0;  // only lower ones are chosen; 0: the whole vocabulary
};

class Generator {
  public:
    /// Reads all weights, each tensor once and in order. The configuration is already checked; the
    /// device must outlive this.
    Generator(device::Device& device, const model::GptConfig& config, DType dtype,
              const ReadTensor& read);

    /// Memory that it takes, on device and host, for a text of so many tokens.
    [[nodiscard]] static std::int64_t planned_bytes(const model::GptConfig& config, DType dtype,
                                                    std::int64_t tokens);

    /// Behind the last of these: at least one token, each below the vocabulary.
    [[nodiscard]] std::vector<double> logits(std::span<const std::int32_t> tokens);

    /// The token that follows these. The same text and seed give the same token, also where the
    /// text itself was generated in part. Throws DataError if a logit is not finite.
    [[nodiscard]] std::int32_t next(std::span<const std::int32_t> tokens, const Sampling& sampling);

  private:
    [[nodiscard]] static std::int32_t length_for(std::size_t tokens, std::int32_t context);

    device::Device& device_;
    model::GptConfig config_;
    DType dtype_;
    std::unique_ptr<device::Stream> stream_;
    model::TensorSet parameters_;
    std::optional<GptForward> forward_;  // of the latest text's length
};

}  // namespace rhizome::engine
