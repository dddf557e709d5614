// A stream that does what another one does, but for what a class derived from it does in its own
// way.
#pragma once

#include <memory>
#include <utility>

#include "device/device.hpp"

namespace rhizome::device {

class StreamOnTop : public Stream {
  public:
    explicit StreamOnTop(std::unique_ptr<Stream> inner) : inner_{std::move(inner)} {}

    void begin(const Work& work) override { inner_->begin(work); }
    [[nodiscard]] std::shared_ptr<const Event> record() override { return inner_->record(); }
    void wait(const Event& event) override { inner_->wait(event); }
    void synchronize() override { inner_->synchronize(); }

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
    void sums_of_squares(Tensor sums, std::span<const Tensor> of) override {
        inner_->sums_of_squares(sums, of);
    }
    void adamw(Tensor parameter, Tensor first_moment, Tensor second_moment, Tensor gradient,
               const AdamWStep& step) override {
        inner_->adamw(parameter, first_moment, second_moment, gradient, step);
    }

  protected:
    [[nodiscard]] Stream& inner() { return *inner_; }

  private:
    std::unique_ptr<Stream> inner_;
};

}  // namespace rhizome::device
