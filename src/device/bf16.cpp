// Products of bf16 on a device of the host: the factors are rounded aside, and the inner device
// multiplies them. A product of two numbers of eight bits is exact in single precision, so this
// differs from instructions for bf16 only in the order of sums.
#include <bit>
#include <utility>

#include "device/host_tensor.hpp"
#include "device/stream_on_top.hpp"

namespace rhizome::device {
namespace {

/// The nearest number of eight significant bits, of two the even one. Loops over it become vector
/// instructions.
float rounded(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t up = bits + 0x7FFFU + (bits >> 16U & 1U);
    // What is no number may not become infinite by a carry.
    const std::uint32_t kept = x == x ? up : bits | 0x400000U;
    return std::bit_cast<float>(kept & 0xFFFF0000U);
}

class Bf16Stream final : public StreamOnTop {
  public:
    Bf16Stream(std::unique_ptr<Stream> inner, Device& device)
        : StreamOnTop{std::move(inner)}, device_{device} {}

    void linear(Tensor out, Tensor x, Tensor weight, std::optional<Tensor> bias) override {
        inner().linear(out, first_.rounded_copy(x, device_), second_.rounded_copy(weight, device_),
                       bias);
    }
    void linear_backward_input(Tensor d_x, Tensor d_out, Tensor weight) override {
        inner().linear_backward_input(d_x, first_.rounded_copy(d_out, device_),
                                      second_.rounded_copy(weight, device_));
    }
    void linear_backward_weight(Tensor d_weight, std::optional<Tensor> d_bias, Tensor d_out,
                                Tensor x) override {
        inner().linear_backward_weight(d_weight, d_bias, first_.rounded_copy(d_out, device_),
                                       second_.rounded_copy(x, device_));
    }

  private:
    /// Of one factor; as large as the largest so far.
    class Aside {
      public:
        Tensor rounded_copy(const Tensor& x, Device& device) {
            if (memory_.bytes() < x.bytes()) memory_ = device.allocate(x.bytes());
            const Tensor copy = memory_.at(0, {"", x.shape, x.dtype});
            const auto* const from = numbers<float>(x);
            auto* const to = numbers<float>(copy);
            for (std::int64_t i = 0; i < x.elements(); ++i) to[i] = rounded(from[i]);
            return copy;
        }

      private:
        Memory memory_;
    };

    Device& device_;
    Aside first_;
    Aside second_;
};

class Bf16Device final : public Device {
  public:
    explicit Bf16Device(std::unique_ptr<Device> inner) : inner_{std::move(inner)} {}

    [[nodiscard]] Memory allocate(std::int64_t bytes) override { return inner_->allocate(bytes); }
    [[nodiscard]] std::unique_ptr<Stream> make_stream() override {
        return std::make_unique<Bf16Stream>(inner_->make_stream(), *inner_);
    }
    /// That of the inner device: precision is mathematics.
    [[nodiscard]] std::string fingerprint() const override { return inner_->fingerprint(); }

  private:
    std::unique_ptr<Device> inner_;
};

}  // namespace

std::unique_ptr<Device> make_bf16_device(std::unique_ptr<Device> inner) {
    return std::make_unique<Bf16Device>(std::move(inner));
}

}  // namespace rhizome::device
