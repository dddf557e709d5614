// The forward pass of a GPT over one text, up to the logits behind its last token: what generating
// text needs of a network. Nothing is kept for a backward pass, so layers share their memory.
//
// The network is made for a length that may be less than the context it was trained for. Attention
// is causal and positions count from the beginning, so the logits behind a token are the same at
// every length that has room for it (on the reference device bit for bit), and they depend on
// nothing behind the token.
#pragma once

#include <span>
#include <vector>

#include "model/gpt.hpp"
#include "model/parameters.hpp"

namespace rhizome::engine {

class GptForward {
  public:
    /// For texts of up to `length` tokens, 1..context.
    GptForward(device::Device& device, const model::GptConfig& config, DType dtype,
               std::int32_t length);

    /// Device memory that it takes.
    [[nodiscard]] static std::int64_t planned_bytes(const model::GptConfig& config, DType dtype,
                                                    std::int32_t length);

    [[nodiscard]] std::int32_t length() const { return length_; }

    /// Of every token, behind the last of these: 1..length of them, each below the vocabulary.
    /// `parameters` are those of the network at its whole context. Waits for the stream.
    [[nodiscard]] std::vector<double> logits(device::Stream& stream,
                                             const model::TensorSet& parameters,
                                             std::span<const std::int32_t> tokens) const;

  private:
    /// Tensors that one piece of memory is given for.
    struct Specs {
        Specs(const model::Network& network, const model::GptConfig& config, DType dtype);
        std::vector<TensorSpec> kept;  // tokens, logits of one token, two of hidden
        std::int64_t saved_bytes = 0;  // of the layer that has most
        std::int64_t scratch_bytes = 0;
        [[nodiscard]] std::int64_t bytes() const;
    };

    [[nodiscard]] LayerId head() const { return LayerId{network_.size() - 1}; }
    /// A layer's parameters as this network has them: fewer positions.
    [[nodiscard]] std::vector<device::Tensor> parameters_of(
        LayerId layer, const model::TensorSet& parameters) const;

    model::Network network_;
    std::int32_t length_;
    device::Memory kept_;
    device::Memory saved_memory_;
    device::Memory scratch_memory_;
    device::Tensor tokens_;
    device::Tensor logits_;
    std::vector<device::Tensor> hidden_;  // two: layers read the one and write the other
    std::vector<std::vector<device::Tensor>> saved_;  // by layer, each from the memory's beginning
    std::vector<std::vector<device::Tensor>> scratch_;  // likewise
};

}  // namespace rhizome::engine
