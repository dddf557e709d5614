// A device that is late: operations run on the inner device only when their time has come and
// somebody looks, not when they are queued. So whoever reads a result, or reuses memory, without
// waiting for the device gets what was there before. Accelerators behave like that.
// Fresh memory is all NaN.
#pragma once

#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "device/device.hpp"

namespace rhizome::tests {

/// Operations of one stream that have not run yet.
class LazyQueue {
  public:
    explicit LazyQueue(std::unique_ptr<device::Stream> inner) : inner_{std::move(inner)} {}

    void push(std::function<void(device::Stream&)> operation) {
        waiting_.push_back(std::move(operation));
        ++pushed_;
    }
    [[nodiscard]] std::size_t pushed() const { return pushed_; }
    /// Runs the first `count` of all that were ever pushed, as far as they have not run.
    void run_until(std::size_t count) {
        for (; run_ < count; ++run_) {
            waiting_.front()(*inner_);
            waiting_.pop_front();
        }
    }

  private:
    std::unique_ptr<device::Stream> inner_;
    std::deque<std::function<void(device::Stream&)>> waiting_;
    std::size_t pushed_ = 0;
    std::size_t run_ = 0;
};

class LazyEvent final : public device::Event {
  public:
    LazyEvent(std::shared_ptr<LazyQueue> queue, const Clock& clock, Nanoseconds due)
        : queue_{std::move(queue)}, clock_{clock}, count_{queue_->pushed()}, due_{due} {}

    [[nodiscard]] bool done() const override {
        if (clock_.now() < due_) return false;
        queue_->run_until(count_);
        return true;
    }
    void wait() const override { queue_->run_until(count_); }

  private:
    std::shared_ptr<LazyQueue> queue_;
    const Clock& clock_;
    std::size_t count_;
    Nanoseconds due_;
};

class LazyStream final : public device::Stream {
  public:
    using Tensor = device::Tensor;
    using MaybeDropout = std::optional<device::Dropout>;

    LazyStream(std::unique_ptr<Stream> inner, const Clock& clock, Nanoseconds delay)
        : queue_{std::make_shared<LazyQueue>(std::move(inner))}, clock_{clock}, delay_{delay} {}

    [[nodiscard]] std::shared_ptr<const device::Event> record() override {
        return std::make_shared<LazyEvent>(queue_, clock_, clock_.now() + delay_);
    }
    void wait(const device::Event& event) override { event.wait(); }
    void synchronize() override { queue_->run_until(queue_->pushed()); }

    void upload(Tensor to, std::span<const std::byte> from) override {
        later([=](Stream& s) { s.upload(to, from); });
    }
    void download(std::span<std::byte> to, Tensor from) override {
        later([=](Stream& s) { s.download(to, from); });
    }
    void copy(Tensor to, Tensor from) override {
        later([=](Stream& s) { s.copy(to, from); });
    }
    void zero(Tensor to) override {
        later([=](Stream& s) { s.zero(to); });
    }
    void add(Tensor out, Tensor a, Tensor b) override {
        later([=](Stream& s) { s.add(out, a, b); });
    }
    void dropout(Tensor out, Tensor x, const device::Dropout& dropout) override {
        later([=](Stream& s) { s.dropout(out, x, dropout); });
    }
    void gelu(Tensor out, Tensor x) override {
        later([=](Stream& s) { s.gelu(out, x); });
    }
    void gelu_backward(Tensor d_x, Tensor d_out, Tensor x) override {
        later([=](Stream& s) { s.gelu_backward(d_x, d_out, x); });
    }
    void embed(Tensor out, Tensor tokens, Tensor token, Tensor position) override {
        later([=](Stream& s) { s.embed(out, tokens, token, position); });
    }
    void embed_backward(Tensor d_token, Tensor d_position, Tensor d_out, Tensor tokens) override {
        later([=](Stream& s) { s.embed_backward(d_token, d_position, d_out, tokens); });
    }
    void norm(Tensor out, Tensor mean, Tensor deviation, Tensor x, Tensor weight,
              Tensor bias) override {
        later([=](Stream& s) { s.norm(out, mean, deviation, x, weight, bias); });
    }
    void norm_backward_input(Tensor d_x, Tensor d_out, Tensor x, Tensor mean, Tensor deviation,
                             Tensor weight) override {
        later([=](Stream& s) { s.norm_backward_input(d_x, d_out, x, mean, deviation, weight); });
    }
    void norm_backward_weight(Tensor d_weight, Tensor d_bias, Tensor d_out, Tensor x, Tensor mean,
                              Tensor deviation) override {
        later([=](Stream& s) {
            s.norm_backward_weight(d_weight, d_bias, d_out, x, mean, deviation);
        });
    }
    void linear(Tensor out, Tensor x, Tensor weight, std::optional<Tensor> bias) override {
        later([=](Stream& s) { s.linear(out, x, weight, bias); });
    }
    void linear_backward_input(Tensor d_x, Tensor d_out, Tensor weight) override {
        later([=](Stream& s) { s.linear_backward_input(d_x, d_out, weight); });
    }
    void linear_backward_weight(Tensor d_weight, std::optional<Tensor> d_bias, Tensor d_out,
                                Tensor x) override {
        later([=](Stream& s) { s.linear_backward_weight(d_weight, d_bias, d_out, x); });
    }
    void attention(Tensor out, Tensor log_sum, Tensor qkv, MaybeDropout dropout) override {
        later([=](Stream& s) { s.attention(out, log_sum, qkv, dropout); });
    }
    void attention_backward(Tensor d_qkv, Tensor d_out, Tensor out, Tensor log_sum, Tensor qkv,
                            MaybeDropout dropout) override {
        later([=](Stream& s) { s.attention_backward(d_qkv, d_out, out, log_sum, qkv, dropout); });
    }
    void cross_entropy(Tensor loss, Tensor logits, Tensor targets, double scale) override {
        later([=](Stream& s) { s.cross_entropy(loss, logits, targets, scale); });
    }
    void sums_of_squares(Tensor sums, std::span<const Tensor> of) override {
        const std::vector<Tensor> all{of.begin(), of.end()};
        later([=](Stream& s) { s.sums_of_squares(sums, all); });
    }
    void adamw(Tensor parameter, Tensor first, Tensor second, Tensor gradient,
               const device::AdamWStep& step) override {
        later([=](Stream& s) { s.adamw(parameter, first, second, gradient, step); });
    }

  private:
    void later(std::function<void(Stream&)> operation) { queue_->push(std::move(operation)); }

    std::shared_ptr<LazyQueue> queue_;
    const Clock& clock_;
    Nanoseconds delay_;
};

/// Everything that is queued is done `delay` later. `inner` and the clock must outlive it.
class LazyDevice final : public device::Device {
  public:
    LazyDevice(Device& inner, const Clock& clock, Nanoseconds delay)
        : inner_{inner}, clock_{clock}, delay_{delay} {}

    [[nodiscard]] device::Memory allocate(std::int64_t bytes) override {
        device::Memory memory = inner_.allocate(bytes);
        if (bytes > 0) {
            const device::Tensor all = memory.at(0, {"all", Shape{bytes / 4}, DType::f32});
            std::memset(all.data, 0xFF, static_cast<std::size_t>(all.bytes()));
        }
        return memory;
    }
    [[nodiscard]] std::unique_ptr<device::Stream> make_stream() override {
        return std::make_unique<LazyStream>(inner_.make_stream(), clock_, delay_);
    }
    [[nodiscard]] std::string fingerprint() const override { return inner_.fingerprint(); }

  private:
    Device& inner_;
    const Clock& clock_;
    Nanoseconds delay_;
};

}  // namespace rhizome::tests
