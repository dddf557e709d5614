// The cpu backend: matrix products by oneDNN, the loops around them in vectors. What it has no way
// of its own for, and all double precision, is the reference backend's.
#include <algorithm>
#include <array>
#include <system_error>

#include "device/cpu_kernels.hpp"
#include "device/host_memory.hpp"
#include "device/host_tensor.hpp"
#include "device/reference_stream.hpp"
#include "device/stream_on_top.hpp"

namespace rhizome::device {
namespace {

using cpu::Extent;
using cpu::Order;

Extent extent_of(const Tensor& tensor) {
    const std::int64_t columns = last_extent(tensor);
    return {tensor.elements() / columns, columns};
}

// Sums that are added up side by side: so many additions are under way in a core at once.
constexpr std::size_t chains = 8;

void squares_side_by_side(const Tensor& sums, std::span<const Tensor> of) {
    std::array<const float*, chains> values{};
    for (std::size_t c = 0; c < chains; ++c) values[c] = numbers<float>(of[c]);
    std::array<double, chains> squares{};
    for (std::int64_t i = 0; i < of.front().elements(); ++i) {
        for (std::size_t c = 0; c < chains; ++c) {
            const auto value = static_cast<double>(values[c][i]);
            squares[c] += value * value;
        }
    }
    std::copy(squares.begin(), squares.end(), numbers<double>(sums));
}

bool is_single(const Tensor& tensor) { return tensor.dtype == DType::f32; }

/// Does everything before the call returns.
class CpuStream final : public StreamOnTop {
  public:
    explicit CpuStream(ThreadPool& pool) : StreamOnTop{make_reference_stream(pool)}, pool_{pool} {}

    void gelu(Tensor out, Tensor x) override {
        if (!is_single(out)) return inner().gelu(out, x);
        ENSURE(out.elements() == x.elements());
        kernels_.gelu(pool_, numbers<float>(out), numbers<float>(x), out.elements());
    }
    void gelu_backward(Tensor d_x, Tensor d_out, Tensor x) override {
        if (!is_single(d_x)) return inner().gelu_backward(d_x, d_out, x);
        ENSURE(d_x.elements() == x.elements() && d_out.elements() == x.elements());
        kernels_.gelu_backward(pool_, numbers<float>(d_x), numbers<float>(d_out), numbers<float>(x),
                               x.elements());
    }

    void norm(Tensor out, Tensor mean, Tensor inverse_deviation, Tensor x, Tensor weight,
              Tensor bias) override {
        if (!is_single(out)) return inner().norm(out, mean, inverse_deviation, x, weight, bias);
        ENSURE(out.shape == x.shape && mean.elements() * last_extent(x) == x.elements());
        ENSURE(weight.elements() == last_extent(x) && bias.elements() == last_extent(x));
        kernels_.norm(pool_, extent_of(x), numbers<float>(out), numbers<float>(mean),
                      numbers<float>(inverse_deviation), numbers<float>(x), numbers<float>(weight),
                      numbers<float>(bias));
    }
    void norm_backward_input(Tensor d_x, Tensor d_out, Tensor x, Tensor mean,
                             Tensor inverse_deviation, Tensor weight) override {
        if (!is_single(d_x)) {
            return inner().norm_backward_input(d_x, d_out, x, mean, inverse_deviation, weight);
        }
        ENSURE(d_x.shape == x.shape && d_out.shape == x.shape);
        ENSURE(weight.elements() == last_extent(x));
        kernels_.norm_backward_input(pool_, extent_of(x), numbers<float>(d_x),
                                     numbers<float>(d_out), numbers<float>(x), numbers<float>(mean),
                                     numbers<float>(inverse_deviation), numbers<float>(weight));
    }
    void norm_backward_weight(Tensor d_weight, Tensor d_bias, Tensor d_out, Tensor x, Tensor mean,
                              Tensor inverse_deviation) override {
        if (!is_single(d_out)) {
            return inner().norm_backward_weight(d_weight, d_bias, d_out, x, mean,
                                                inverse_deviation);
        }
        ENSURE(d_out.shape == x.shape && d_weight.elements() == last_extent(x));
        ENSURE(d_bias.elements() == last_extent(x));
        kernels_.norm_backward_weight(pool_, extent_of(x), numbers<float>(d_weight),
                                      numbers<float>(d_bias), numbers<float>(d_out),
                                      numbers<float>(x), numbers<float>(mean),
                                      numbers<float>(inverse_deviation));
    }

    void linear(Tensor out, Tensor x, Tensor weight, std::optional<Tensor> bias) override {
        if (!is_single(out)) return inner().linear(out, x, weight, bias);
        const auto [rows, outputs, inputs] = linear_extents(out, x, weight);
        float keep = 0;
        if (bias) {  // the bias first, so that adding it needs no second pass
            ENSURE(bias->elements() == outputs);
            kernels_.repeat_row(pool_, {rows, outputs}, numbers<float>(out), numbers<float>(*bias));
            keep = 1;
        }
        by_rows(
            rows, [&, outputs = outputs, inputs = inputs](std::int64_t row, std::int64_t count) {
                cpu::multiply({.rows = count, .columns = outputs, .inner = inputs, .keep = keep},
                              numbers<float>(out) + row * outputs, outputs,
                              {numbers<float>(x) + row * inputs, inputs},
                              {numbers<float>(weight), inputs, Order::transposed});
            });
    }
    void linear_backward_input(Tensor d_x, Tensor d_out, Tensor weight) override {
        if (!is_single(d_x)) return inner().linear_backward_input(d_x, d_out, weight);
        const auto [rows, outputs, inputs] = linear_extents(d_out, d_x, weight);
        by_rows(rows,
                [&, outputs = outputs, inputs = inputs](std::int64_t row, std::int64_t count) {
                    cpu::multiply({.rows = count, .columns = inputs, .inner = outputs},
                                  numbers<float>(d_x) + row * inputs, inputs,
                                  {numbers<float>(d_out) + row * outputs, outputs},
                                  {numbers<float>(weight), inputs});
                });
    }
    void linear_backward_weight(Tensor d_weight, std::optional<Tensor> d_bias, Tensor d_out,
                                Tensor x) override {
        if (!is_single(d_out)) return inner().linear_backward_weight(d_weight, d_bias, d_out, x);
        const auto [rows, outputs, inputs] = linear_extents(d_out, x, d_weight);
        by_rows(outputs, [&, rows = rows, outputs = outputs, inputs = inputs](std::int64_t row,
                                                                              std::int64_t count) {
            cpu::multiply({.rows = count, .columns = inputs, .inner = rows, .keep = 1},
                          numbers<float>(d_weight) + row * inputs, inputs,
                          {numbers<float>(d_out) + row, outputs, Order::transposed},
                          {numbers<float>(x), inputs});
        });
        if (!d_bias) return;
        ENSURE(d_bias->elements() == outputs);
        kernels_.add_rows(pool_, {rows, outputs}, numbers<float>(*d_bias), numbers<float>(d_out));
    }

    void attention(Tensor out, Tensor log_sum, Tensor qkv,
                   std::optional<Dropout> dropout) override {
        if (!is_single(out)) return inner().attention(out, log_sum, qkv, dropout);
        kernels_.attention(pool_, attention_shape(out, log_sum, qkv), numbers<float>(out),
                           numbers<float>(log_sum), numbers<float>(qkv), dropout);
    }
    void attention_backward(Tensor d_qkv, Tensor d_out, Tensor out, Tensor log_sum, Tensor qkv,
                            std::optional<Dropout> dropout) override {
        if (!is_single(out)) {
            return inner().attention_backward(d_qkv, d_out, out, log_sum, qkv, dropout);
        }
        ENSURE(d_qkv.shape == qkv.shape && d_out.shape == out.shape);
        kernels_.attention_backward(
            pool_, attention_shape(out, log_sum, qkv), numbers<float>(d_qkv), numbers<float>(d_out),
            numbers<float>(out), numbers<float>(log_sum), numbers<float>(qkv), dropout);
    }

    void sums_of_squares(Tensor sums, std::span<const Tensor> of) override {
        ENSURE(sums.elements() == static_cast<std::int64_t>(of.size()));
        for (std::size_t first = 0; first < of.size();) {
            const bool fits = of.size() - first >= chains;
            const auto these = of.subspan(first, fits ? chains : 1);
            const Tensor to = sums.slice(static_cast<std::int64_t>(first),
                                         static_cast<std::int64_t>(these.size()));
            const bool alike =
                fits && std::all_of(these.begin(), these.end(), [&](const Tensor& x) {
                    return is_single(x) && x.elements() == these.front().elements();
                });
            if (alike) {
                squares_side_by_side(to, these);
                first += chains;
            } else {
                inner().sum_of_squares(to.slice(0, 1), these.front());
                ++first;
            }
        }
    }

    void cross_entropy(Tensor loss, Tensor logits, Tensor targets, double gradient_scale) override {
        if (!is_single(logits)) {
            return inner().cross_entropy(loss, logits, targets, gradient_scale);
        }
        ENSURE(targets.elements() * last_extent(logits) == logits.elements());
        *numbers<double>(loss) = kernels_.cross_entropy(
            pool_, extent_of(logits), numbers<float>(logits), integers(targets), gradient_scale);
    }

  private:
    struct LinearExtents {
        std::int64_t rows;
        std::int64_t outputs;
        std::int64_t inputs;
    };
    static LinearExtents linear_extents(const Tensor& out, const Tensor& x, const Tensor& weight) {
        const LinearExtents found{extent_of(out).rows, last_extent(out), last_extent(x)};
        ENSURE(extent_of(x).rows == found.rows);
        ENSURE(last_extent(weight) == found.inputs);
        ENSURE(extent_of(weight).rows == found.outputs);
        return found;
    }

    /// Rows of a result are shared out among the threads; body(first row, rows).
    template <class Body>
    void by_rows(std::int64_t rows, const Body& body) {
        pool_.run(rows, [&](std::int64_t first, std::int64_t last) {
            if (last > first) body(first, last - first);
        });
    }

    ThreadPool& pool_;
    const cpu::Kernels& kernels_ = *cpu::kernels_here().back();
};

class CpuDevice final : public Device {
  public:
    explicit CpuDevice(std::int32_t threads) : pool_{threads}, host_{make_reference_device(1)} {}

    Memory allocate(std::int64_t bytes) override { return allocate_on_host(bytes); }
    std::unique_ptr<Stream> make_stream() override { return std::make_unique<CpuStream>(pool_); }
    /// With the reference backend's, which does a part of the work.
    std::string fingerprint() const override {
        return "cpu, " + cpu::matrix_fingerprint() + ", " + std::to_string(pool_.threads()) +
               (pool_.threads() == 1 ? " thread" : " threads") + ", on " + host_->fingerprint();
    }

  private:
    ThreadPool pool_;
    std::unique_ptr<Device> host_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(std::int32_t threads) {
    try {
        return std::make_unique<CpuDevice>(threads);
    } catch (const std::system_error& error) {
        throw ConfigError{"threads=" + std::to_string(threads) + " (the system gives no more: " +
                          error.code().message() + "), take fewer"};
    }
}

}  // namespace rhizome::device
