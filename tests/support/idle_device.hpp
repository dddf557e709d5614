// A device that does nothing: real memory, no mathematics, every event has happened. What is left
// of a step on it is what the engine and its messages cost.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "device/device.hpp"

namespace rhizome::tests {

class PastEvent final : public device::Event {
  public:
    [[nodiscard]] bool done() const override { return true; }
    void wait() const override {}
};

class IdleStream final : public device::Stream {
  public:
    using Tensor = device::Tensor;
    using MaybeDropout = std::optional<device::Dropout>;

    [[nodiscard]] std::shared_ptr<const device::Event> record() override { return past_; }
    void wait(const device::Event& /*event*/) override {}
    void synchronize() override {}
    void upload(Tensor, std::span<const std::byte>) override {}
    void download(std::span<std::byte>, Tensor) override {}
    void copy(Tensor, Tensor) override {}
    void zero(Tensor) override {}
    void add(Tensor, Tensor, Tensor) override {}
    void dropout(Tensor, Tensor, const device::Dropout&) override {}
    void gelu(Tensor, Tensor) override {}
    void gelu_backward(Tensor, Tensor, Tensor) override {}
    void embed(Tensor, Tensor, Tensor, Tensor) override {}
    void embed_backward(Tensor, Tensor, Tensor, Tensor) override {}
    void norm(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor) override {}
    void norm_backward_input(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor) override {}
    void norm_backward_weight(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor) override {}
    void linear(Tensor, Tensor, Tensor, std::optional<Tensor>) override {}
    void linear_backward_input(Tensor, Tensor, Tensor) override {}
    void linear_backward_weight(Tensor, std::optional<Tensor>, Tensor, Tensor) override {}
    void attention(Tensor, Tensor, Tensor, MaybeDropout) override {}
    void attention_backward(Tensor, Tensor, Tensor, Tensor, Tensor, MaybeDropout) override {}
    void cross_entropy(Tensor, Tensor, Tensor, double) override {}
    void sums_of_squares(Tensor, std::span<const Tensor>) override {}
    void adamw(Tensor, Tensor, Tensor, Tensor, const device::AdamWStep&) override {}

  private:
    std::shared_ptr<const device::Event> past_ = std::make_shared<PastEvent>();
};

class IdleDevice final : public device::Device {
  public:
    /// Zeros, so that every loss and norm is finite.
    [[nodiscard]] device::Memory allocate(std::int64_t bytes) override {
        return {new std::byte[static_cast<std::size_t>(bytes)]{}, bytes,
                [](const std::byte* data) { delete[] data; }};
    }
    [[nodiscard]] std::unique_ptr<device::Stream> make_stream() override {
        return std::make_unique<IdleStream>();
    }
    [[nodiscard]] std::string fingerprint() const override { return "idle"; }
};

}  // namespace rhizome::tests
