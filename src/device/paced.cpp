#include "device/paced.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace rhizome::device {
namespace {

void sleep_until(const Clock& clock, Nanoseconds time) {
    for (Nanoseconds now = clock.now(); now < time; now = clock.now()) {
        std::this_thread::sleep_for(time - now);
    }
}

class PacedEvent final : public Event {
  public:
    PacedEvent(std::shared_ptr<const Event> inner, Nanoseconds due, const Clock& clock)
        : inner_{std::move(inner)}, due_{due}, clock_{clock} {}

    [[nodiscard]] bool done() const override { return clock_.now() >= due_ && inner_->done(); }
    void wait() const override {
        inner_->wait();
        sleep_until(clock_, due_);
    }
    [[nodiscard]] std::optional<Nanoseconds> due() const override { return due_; }

    [[nodiscard]] const Event& inner() const { return *inner_; }
    [[nodiscard]] Nanoseconds time() const { return due_; }

  private:
    std::shared_ptr<const Event> inner_;
    Nanoseconds due_;
    const Clock& clock_;
};

class PacedStream final : public Stream {
  public:
    PacedStream(std::unique_ptr<Stream> inner, Pace pace, const Clock& clock)
        : inner_{std::move(inner)}, pace_{std::move(pace)}, clock_{clock} {}

    void begin(const Work& work) override {
        inner_->begin(work);
        free_at_ = std::max(free_at_, clock_.now()) + time_of(work);
    }
    [[nodiscard]] std::shared_ptr<const Event> record() override {
        return std::make_shared<PacedEvent>(inner_->record(), std::max(free_at_, clock_.now()),
                                            clock_);
    }
    void wait(const Event& event) override {
        // The inner stream knows only events of its own device.
        const auto* paced = dynamic_cast<const PacedEvent*>(&event);
        inner_->wait(paced != nullptr ? paced->inner() : event);
        if (paced != nullptr) free_at_ = std::max(free_at_, paced->time());
    }
    void synchronize() override {
        inner_->synchronize();
        sleep_until(clock_, free_at_);
    }

    void upload(Tensor to, std::span<const std::byte> from) override { inner_->upload(to, from); }
    void download(std::span<std::byte> to, Tensor from) override { inner_->download(to, from); }
    void copy(Tensor to, Tensor from) override { inner_->copy(to, from); }
    void zero(Tensor to) override { inner_->zero(to); }
    void add(Tensor out, Tensor a, Tensor b) override { inner_->add(out, a, b); }
    void dropout(Tensor out, Tensor x, const Dropout& dropout) override {
        inner_->dropout(out, x, dropout);
    }
    void gelu(Tensor out, Tensor x) override { inner_->gelu(out, x); }
    void gelu_backward(Tensor d_x, Tensor d_out, Tensor x) override {
        inner_->gelu_backward(d_x, d_out, x);
    }
    void embed(Tensor out, Tensor tokens, Tensor token, Tensor position) override {
        inner_->embed(out, tokens, token, position);
    }
    void embed_backward(Tensor d_token, Tensor d_position, Tensor d_out, Tensor tokens) override {
        inner_->embed_backward(d_token, d_position, d_out, tokens);
    }
    void norm(Tensor out, Tensor mean, Tensor inverse_deviation, Tensor x, Tensor weight,
              Tensor bias) override {
        inner_->norm(out, mean, inverse_deviation, x, weight, bias);
    }
    void norm_backward_input(Tensor d_x, Tensor d_out, Tensor x, Tensor mean,
                             Tensor inverse_deviation, Tensor weight) override {
        inner_->norm_backward_input(d_x, d_out, x, mean, inverse_deviation, weight);
    }
    void norm_backward_weight(Tensor d_weight, Tensor d_bias, Tensor d_out, Tensor x, Tensor mean,
                              Tensor inverse_deviation) override {
        inner_->norm_backward_weight(d_weight, d_bias, d_out, x, mean, inverse_deviation);
    }
    void linear(Tensor out, Tensor x, Tensor weight, std::optional<Tensor> bias) override {
        inner_->linear(out, x, weight, bias);
    }
    void linear_backward_input(Tensor d_x, Tensor d_out, Tensor weight) override {
        inner_->linear_backward_input(d_x, d_out, weight);
    }
    void linear_backward_weight(Tensor d_weight, std::optional<Tensor> d_bias, Tensor d_out,
                                Tensor x) override {
        inner_->linear_backward_weight(d_weight, d_bias, d_out, x);
    }
    void attention(Tensor out, Tensor log_sum, Tensor qkv,
                   std::optional<Dropout> dropout) override {
        inner_->attention(out, log_sum, qkv, dropout);
    }
    void attention_backward(Tensor d_qkv, Tensor d_out, Tensor out, Tensor log_sum, Tensor qkv,
                            std::optional<Dropout> dropout) override {
        inner_->attention_backward(d_qkv, d_out, out, log_sum, qkv, dropout);
    }
    void cross_entropy(Tensor loss, Tensor logits, Tensor targets, double gradient_scale) override {
        inner_->cross_entropy(loss, logits, targets, gradient_scale);
    }
    void sum_of_squares(Tensor sum, Tensor x) override { inner_->sum_of_squares(sum, x); }
    void adamw(Tensor parameter, Tensor first_moment, Tensor second_moment, Tensor gradient,
               const AdamWStep& step) override {
        inner_->adamw(parameter, first_moment, second_moment, gradient, step);
    }

  private:
    [[nodiscard]] Nanoseconds time_of(const Work& work) const {
        switch (work.part) {
            case Work::Part::forward:
                return to_nanoseconds(pace_.layers[work.layer.index()].forward_s);
            case Work::Part::backward_input:
                return to_nanoseconds(pace_.layers[work.layer.index()].backward_input_s);
            case Work::Part::backward_weight:
                return to_nanoseconds(pace_.layers[work.layer.index()].backward_weight_s);
            case Work::Part::update:
                return to_nanoseconds(pace_.update_s_per_element *
                                      static_cast<double>(work.elements));
            case Work::Part::other:
                return Nanoseconds{0};
        }
        return Nanoseconds{0};
    }

    std::unique_ptr<Stream> inner_;
    Pace pace_;
    const Clock& clock_;
    Nanoseconds free_at_{0};  // when the accelerator is through with what it has been given
};

class PacedDevice final : public Device {
  public:
    PacedDevice(Device& inner, Pace pace, const Clock& clock)
        : inner_{inner}, pace_{std::move(pace)}, clock_{clock} {}

    [[nodiscard]] Memory allocate(std::int64_t bytes) override { return inner_.allocate(bytes); }
    [[nodiscard]] std::unique_ptr<Stream> make_stream() override {
        return std::make_unique<PacedStream>(inner_.make_stream(), pace_, clock_);
    }
    /// That of the inner device: the same bits.
    [[nodiscard]] std::string fingerprint() const override { return inner_.fingerprint(); }

  private:
    Device& inner_;
    Pace pace_;
    const Clock& clock_;
};

}  // namespace

std::unique_ptr<Device> make_paced_device(Device& inner, const Pace& pace, const Clock& clock) {
    return std::make_unique<PacedDevice>(inner, pace, clock);
}

}  // namespace rhizome::device
