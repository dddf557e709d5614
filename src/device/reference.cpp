#include <gnu/libc-version.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>

#include "core/digest.hpp"
#include "device/host_memory.hpp"
#include "device/host_tensor.hpp"
#include "device/reference_kernels.hpp"
#include "device/reference_stream.hpp"

namespace rhizome::device {
namespace {

using reference::Matrix;
using reference::Start;

/// All leading extents as rows.
template <class T>
Matrix<T> matrix(const Tensor& tensor) {
    const std::int64_t columns = last_extent(tensor);
    return {numbers<T>(tensor), tensor.elements() / columns, columns, columns};
}

/// Calls body.operator()<T>() with the element type of a floating-point tensor.
template <class Body>
void with_type(const Tensor& tensor, const Body& body) {
    ENSURE(tensor.dtype == DType::f32 || tensor.dtype == DType::f64);
    if (tensor.dtype == DType::f64) {
        body.template operator()<double>();
    } else {
        body.template operator()<float>();
    }
}

/// The host works at once, so whatever was recorded has happened.
class PastEvent final : public Event {
  public:
    [[nodiscard]] bool done() const override { return true; }
    void wait() const override {}
};

/// Does everything before the call returns.
class ReferenceStream final : public Stream {
  public:
    explicit ReferenceStream(ThreadPool& pool) : pool_{pool} {}

    std::shared_ptr<const Event> record() override { return std::make_shared<PastEvent>(); }
    void wait(const Event& event) override { ENSURE(event.done()); }
    void synchronize() override {}

    void upload(Tensor to, std::span<const std::byte> from) override {
        ENSURE(static_cast<std::size_t>(to.bytes()) == from.size());
        std::memcpy(to.data, from.data(), from.size());
    }
    void download(std::span<std::byte> to, Tensor from) override {
        ENSURE(static_cast<std::size_t>(from.bytes()) == to.size());
        std::memcpy(to.data(), from.data, to.size());
    }
    void copy(Tensor to, Tensor from) override {
        ENSURE(to.bytes() == from.bytes() && to.dtype == from.dtype);
        std::memmove(to.data, from.data, static_cast<std::size_t>(to.bytes()));
    }
    void zero(Tensor to) override { std::memset(to.data, 0, static_cast<std::size_t>(to.bytes())); }

    void add(Tensor out, Tensor a, Tensor b) override {
        ENSURE(out.elements() == a.elements() && out.elements() == b.elements());
        with_type(out, [&]<class T>() {
            T* const o = numbers<T>(out);
            const T* const x = numbers<T>(a);
            const T* const y = numbers<T>(b);
            pool_.run(out.elements(), [&](std::int64_t first, std::int64_t last) {
                for (std::int64_t i = first; i < last; ++i) o[i] = x[i] + y[i];
            });
        });
    }

    void dropout(Tensor out, Tensor x, const Dropout& dropout) override {
        ENSURE(out.elements() == x.elements());
        with_type(out, [&]<class T>() {
            reference::dropout(pool_, numbers<T>(out), numbers<T>(x), out.elements(), dropout);
        });
    }

    void gelu(Tensor out, Tensor x) override {
        ENSURE(out.elements() == x.elements());
        with_type(out, [&]<class T>() {
            reference::gelu(pool_, numbers<T>(out), numbers<T>(x), out.elements());
        });
    }

    void gelu_backward(Tensor d_x, Tensor d_out, Tensor x) override {
        ENSURE(d_x.elements() == x.elements() && d_out.elements() == x.elements());
        with_type(d_x, [&]<class T>() {
            reference::gelu_backward(pool_, numbers<T>(d_x), numbers<T>(d_out), numbers<T>(x),
                                     x.elements());
        });
    }

    void embed(Tensor out, Tensor tokens, Tensor token, Tensor position) override {
        const std::int64_t positions = position.shape[0];
        ENSURE(out.elements() == tokens.elements() * last_extent(out));
        ENSURE(tokens.elements() % positions == 0);
        ENSURE(last_extent(token) == last_extent(out) && last_extent(position) == last_extent(out));
        const std::int32_t* const ids = integers(tokens);
        with_type(out, [&]<class T>() {
            const Matrix<T> x = matrix<T>(out);
            const Matrix<T> of_token = matrix<T>(token);
            const Matrix<T> of_position = matrix<T>(position);
            pool_.run(x.rows, [&](std::int64_t first, std::int64_t last) {
                for (std::int64_t r = first; r < last; ++r) {
                    ENSURE(ids[r] >= 0 && ids[r] < of_token.rows);
                    for (std::int64_t c = 0; c < x.columns; ++c) {
                        x(r, c) = of_token(ids[r], c) + of_position(r % positions, c);
                    }
                }
            });
        });
    }

    void embed_backward(Tensor d_token, Tensor d_position, Tensor d_out, Tensor tokens) override {
        const std::int64_t positions = d_position.shape[0];
        ENSURE(d_out.elements() == tokens.elements() * last_extent(d_out));
        ENSURE(last_extent(d_token) == last_extent(d_out));
        ENSURE(last_extent(d_position) == last_extent(d_out));
        const std::int32_t* const ids = integers(tokens);
        with_type(d_out, [&]<class T>() {
            const Matrix<T> d_x = matrix<T>(d_out);
            const Matrix<T> of_token = matrix<T>(d_token);
            const Matrix<T> of_position = matrix<T>(d_position);
            // By columns: two rows may meet in one token, and each sum keeps the order of rows.
            pool_.run(d_x.columns, [&](std::int64_t first, std::int64_t last) {
                for (std::int64_t r = 0; r < d_x.rows; ++r) {
                    for (std::int64_t c = first; c < last; ++c) {
                        of_token(ids[r], c) += d_x(r, c);
                        of_position(r % positions, c) += d_x(r, c);
                    }
                }
            });
        });
    }

    void norm(Tensor out, Tensor mean, Tensor inverse_deviation, Tensor x, Tensor weight,
              Tensor bias) override {
        ENSURE(out.shape == x.shape && mean.elements() * last_extent(x) == x.elements());
        ENSURE(weight.elements() == last_extent(x) && bias.elements() == last_extent(x));
        with_type(out, [&]<class T>() {
            reference::norm(pool_, matrix<T>(out), numbers<T>(mean), numbers<T>(inverse_deviation),
                            matrix<T>(x), numbers<T>(weight), numbers<T>(bias));
        });
    }

    void norm_backward_input(Tensor d_x, Tensor d_out, Tensor x, Tensor mean,
                             Tensor inverse_deviation, Tensor weight) override {
        ENSURE(d_x.shape == x.shape && d_out.shape == x.shape);
        ENSURE(weight.elements() == last_extent(x));
        with_type(d_x, [&]<class T>() {
            reference::norm_backward_input(pool_, matrix<T>(d_x), matrix<T>(d_out), matrix<T>(x),
                                           numbers<T>(mean), numbers<T>(inverse_deviation),
                                           numbers<T>(weight));
        });
    }

    void norm_backward_weight(Tensor d_weight, Tensor d_bias, Tensor d_out, Tensor x, Tensor mean,
                              Tensor inverse_deviation) override {
        ENSURE(d_out.shape == x.shape && d_weight.elements() == last_extent(x));
        ENSURE(d_bias.elements() == last_extent(x));
        with_type(d_out, [&]<class T>() {
            reference::norm_backward_weight(pool_, numbers<T>(d_weight), numbers<T>(d_bias),
                                            matrix<T>(d_out), matrix<T>(x), numbers<T>(mean),
                                            numbers<T>(inverse_deviation));
        });
    }

    void linear(Tensor out, Tensor x, Tensor weight, std::optional<Tensor> bias) override {
        with_type(out, [&]<class T>() {
            const Matrix<T> y = matrix<T>(out);
            Start start = Start::zero;
            if (bias) {  // the bias first, so that adding it needs no second pass
                ENSURE(bias->elements() == y.columns);
                const T* const b = numbers<T>(*bias);
                pool_.run(y.rows, [&](std::int64_t first, std::int64_t last) {
                    for (std::int64_t r = first; r < last; ++r) {
                        std::memcpy(&y(r, 0), b, static_cast<std::size_t>(y.columns) * sizeof(T));
                    }
                });
                start = Start::old;
            }
            reference::multiply(pool_, y, matrix<T>(x), matrix<T>(weight).transposed(), start);
        });
    }

    void linear_backward_input(Tensor d_x, Tensor d_out, Tensor weight) override {
        with_type(d_x, [&]<class T>() {
            reference::multiply(pool_, matrix<T>(d_x), matrix<T>(d_out), matrix<T>(weight),
                                Start::zero);
        });
    }

    void linear_backward_weight(Tensor d_weight, std::optional<Tensor> d_bias, Tensor d_out,
                                Tensor x) override {
        with_type(d_out, [&]<class T>() {
            reference::multiply(pool_, matrix<T>(d_weight), matrix<T>(d_out).transposed(),
                                matrix<T>(x), Start::old);
            if (d_bias) {
                ENSURE(d_bias->elements() == last_extent(d_out));
                reference::add_rows(pool_, numbers<T>(*d_bias), matrix<T>(d_out));
            }
        });
    }

    void attention(Tensor out, Tensor log_sum, Tensor qkv,
                   std::optional<Dropout> dropout) override {
        with_type(out, [&]<class T>() {
            reference::attention(pool_, attention_shape(out, log_sum, qkv), numbers<T>(out),
                                 numbers<T>(log_sum), numbers<T>(qkv), dropout);
        });
    }

    void attention_backward(Tensor d_qkv, Tensor d_out, Tensor out, Tensor log_sum, Tensor qkv,
                            std::optional<Dropout> dropout) override {
        ENSURE(d_qkv.shape == qkv.shape && d_out.shape == out.shape);
        with_type(out, [&]<class T>() {
            reference::attention_backward(pool_, attention_shape(out, log_sum, qkv),
                                          numbers<T>(d_qkv), numbers<T>(d_out), numbers<T>(out),
                                          numbers<T>(log_sum), numbers<T>(qkv), dropout);
        });
    }

    void cross_entropy(Tensor loss, Tensor logits, Tensor targets, double gradient_scale) override {
        ENSURE(targets.elements() * last_extent(logits) == logits.elements());
        with_type(logits, [&]<class T>() {
            *numbers<double>(loss) = reference::cross_entropy(pool_, matrix<T>(logits),
                                                              integers(targets), gradient_scale);
        });
    }

    void sums_of_squares(Tensor sums, std::span<const Tensor> of) override {
        ENSURE(sums.elements() == static_cast<std::int64_t>(of.size()));
        auto* sum = numbers<double>(sums);
        for (const Tensor& x : of) {
            with_type(x, [&]<class T>() {
                const T* const values = numbers<T>(x);
                double squares = 0;
                for (std::int64_t i = 0; i < x.elements(); ++i) {
                    const auto value = static_cast<double>(values[i]);
                    squares += value * value;
                }
                *sum++ = squares;
            });
        }
    }

    void adamw(Tensor parameter, Tensor first_moment, Tensor second_moment, Tensor gradient,
               const AdamWStep& step) override {
        const std::int64_t elements = parameter.elements();
        ENSURE(first_moment.elements() == elements && second_moment.elements() == elements);
        ENSURE(gradient.elements() == elements);
        with_type(parameter, [&]<class T>() {
            adamw_of(numbers<T>(parameter), numbers<T>(first_moment), numbers<T>(second_moment),
                     numbers<T>(gradient), elements, step);
        });
    }

  private:
    template <class T>
    void adamw_of(T* p, T* m, T* v, const T* gradient, std::int64_t elements,
                  const AdamWStep& step) {
        const auto rate = static_cast<T>(step.rate);
        const auto shrink = static_cast<T>(step.rate * step.decay);
        const auto beta1 = static_cast<T>(step.beta1);
        const auto beta2 = static_cast<T>(step.beta2);
        const auto other1 = static_cast<T>(1.0 - step.beta1);
        const auto other2 = static_cast<T>(1.0 - step.beta2);
        const auto epsilon = static_cast<T>(step.epsilon);
        const auto scale = static_cast<T>(step.gradient_scale);
        const auto first_correction = static_cast<T>(step.first_correction);
        const auto second_correction = static_cast<T>(step.second_correction);
        // By value: for all the compiler knows, a reference to `rate` might point into p.
        pool_.run(elements, [=](std::int64_t first, std::int64_t last) {
            for (std::int64_t i = first; i < last; ++i) {
                const T g = gradient[i] * scale;
                m[i] = beta1 * m[i] + other1 * g;
                v[i] = beta2 * v[i] + other2 * (g * g);
                const T decayed = p[i] - shrink * p[i];
                const T deviation = std::sqrt(v[i] / second_correction) + epsilon;
                p[i] = decayed - rate * ((m[i] / first_correction) / deviation);
            }
        });
    }

    ThreadPool& pool_;
};

/// The C library picks its exp and log by processor and settings, and their last bits may differ:
/// eight digits of a digest of what they give here.
std::string mathematical_functions() {
    Digest digest;
    const auto add = [&](auto value) { digest.add(std::as_bytes(std::span{&value, 1})); };
    for (int i = 1; i <= 256; ++i) {
        const double x = 0.037 * i;
        const auto y = static_cast<float>(x);
        for (const double value :
             {std::exp(-x), std::log(x), std::cos(x), std::sin(x), std::pow(0.9, x)}) {
            add(value);
        }
        for (const float value : {std::exp(-y), std::log(y)}) add(value);
    }
    return digest.hex().substr(0, 8);
}

class ReferenceDevice final : public Device {
  public:
    explicit ReferenceDevice(std::int32_t threads) : pool_{threads} {}

    Memory allocate(std::int64_t bytes) override { return allocate_on_host(bytes); }
    std::unique_ptr<Stream> make_stream() override {
        return std::make_unique<ReferenceStream>(pool_);
    }
    std::string fingerprint() const override {
        return std::string{"reference, " RHIZOME_BUILD ", glibc "} + gnu_get_libc_version() + " " +
               mathematical_functions() + ", " + std::to_string(pool_.threads()) +
               (pool_.threads() == 1 ? " thread" : " threads");
    }

  private:
    ThreadPool pool_;
};

}  // namespace

std::unique_ptr<Stream> make_reference_stream(ThreadPool& pool) {
    return std::make_unique<ReferenceStream>(pool);
}

std::unique_ptr<Device> make_reference_device(std::int32_t threads) {
    try {
        return std::make_unique<ReferenceDevice>(threads);
    } catch (const std::system_error& error) {
        throw ConfigError{"threads=" + std::to_string(threads) + " (the system gives no more: " +
                          error.code().message() + "), take fewer"};
    }
}

}  // namespace rhizome::device
