// What a layer needs from the machine it runs on. A device hands out memory and streams; a stream
// is an ordered queue of operations that may finish later than the call returns. Nothing above this
// room can tell the backends apart, except by speed and by the fingerprint.
//
// Every operation gives the same bits on every call with the same inputs: no atomics, no order of
// summation that depends on time or on the number of threads. Names of shapes: B rows of a
// microbatch, T positions, C channels, H heads, R rows (all leading extents together), I and O
// inputs and outputs of a matrix, V vocabulary. Floating-point tensors of one call have one dtype.
//
// Besides what it is handed, an operation takes no more memory than its largest tensor has; in bf16
// two such tensors more, for the rounded factors.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "core/ids.hpp"
#include "core/random.hpp"
#include "device/tensor.hpp"

namespace rhizome::device {

/// Zeroes elements with this probability and scales the rest by 1 / (1 - probability). The mask is
/// a function of the site, so that backward and recomputation draw it again.
struct Dropout {
    double probability;  // in [0, 1)
    RandomSite site;
};

/// What a run computes in. bf16 is fp32, but for the factors of linear layers' products, which are
/// rounded to eight significant bits (to the nearest, of two the even one); the products are added
/// in fp32, and weights, gradients and optimizer state are fp32.
enum class Precision : std::uint8_t { fp32, fp64, bf16 };

[[nodiscard]] constexpr DType dtype_of(Precision precision) {
    return precision == Precision::fp64 ? DType::f64 : DType::f32;
}

/// Constants of one AdamW step for the tensors of one group (docs/MATHEMATICS.md, Optimizer).
struct AdamWStep {
    double rate;
    double decay;
    double beta1;
    double beta2;
    double epsilon;
    double gradient_scale;     // from clipping
    double first_correction;   // 1 - beta1^t
    double second_correction;  // 1 - beta2^t
};

/// A point in a stream that another stream, or the host, can wait for.
class Event {
  public:
    virtual ~Event() = default;
    [[nodiscard]] virtual bool done() const = 0;
    /// Blocks until it has happened.
    virtual void wait() const = 0;
    /// When it will happen, where a device knows.
    [[nodiscard]] virtual std::optional<Nanoseconds> due() const { return std::nullopt; }
};

/// What the operations that follow are for. Changes no result: devices may time or trace by it.
struct Work {
    enum class Part : std::uint8_t { forward, backward_input, backward_weight, update, other };
    Part part = Part::other;
    LayerId layer{0};           // of the first three
    std::int64_t elements = 0;  // of update
};

/// Invariant: operations take effect in the order of the calls.
class Stream {
  public:
    virtual ~Stream() = default;

    virtual void begin(const Work& /*work*/) {}

    // --- order ---
    [[nodiscard]] virtual std::shared_ptr<const Event> record() = 0;
    /// Later operations of this stream start after the event. Never blocks the caller.
    virtual void wait(const Event& event) = 0;
    /// Blocks until everything queued so far is done; reports a broken device by exception.
    virtual void synchronize() = 0;

    // --- moving bytes; host memory must stay as it is until the stream has passed ---
    virtual void upload(Tensor to, std::span<const std::byte> from) = 0;
    virtual void download(std::span<std::byte> to, Tensor from) = 0;
    virtual void copy(Tensor to, Tensor from) = 0;
    virtual void zero(Tensor to) = 0;

    // --- element by element; `out` may be an input ---
    virtual void add(Tensor out, Tensor a, Tensor b) = 0;
    virtual void dropout(Tensor out, Tensor x, const Dropout& dropout) = 0;
    /// The tanh form (Hendrycks and Gimpel 2016), as GPT-2 uses it.
    virtual void gelu(Tensor out, Tensor x) = 0;
    virtual void gelu_backward(Tensor d_x, Tensor d_out, Tensor x) = 0;

    // --- embedding: out (B, T, C) = token (V, C) [tokens (B, T)] + position (T, C) ---
    virtual void embed(Tensor out, Tensor tokens, Tensor token, Tensor position) = 0;
    /// Adds to d_token and d_position.
    virtual void embed_backward(Tensor d_token, Tensor d_position, Tensor d_out, Tensor tokens) = 0;

    // --- layer norm over the last extent: x (R, C); mean and inverse deviation (R) are kept ---
    virtual void norm(Tensor out, Tensor mean, Tensor inverse_deviation, Tensor x, Tensor weight,
                      Tensor bias) = 0;
    virtual void norm_backward_input(Tensor d_x, Tensor d_out, Tensor x, Tensor mean,
                                     Tensor inverse_deviation, Tensor weight) = 0;
    /// Adds to d_weight and d_bias.
    virtual void norm_backward_weight(Tensor d_weight, Tensor d_bias, Tensor d_out, Tensor x,
                                      Tensor mean, Tensor inverse_deviation) = 0;

    // --- linear: out (R, O) = x (R, I) weight (O, I)^T + bias (O) ---
    virtual void linear(Tensor out, Tensor x, Tensor weight, std::optional<Tensor> bias) = 0;
    virtual void linear_backward_input(Tensor d_x, Tensor d_out, Tensor weight) = 0;
    /// Adds to d_weight and d_bias.
    virtual void linear_backward_weight(Tensor d_weight, std::optional<Tensor> d_bias, Tensor d_out,
                                        Tensor x) = 0;

    // --- causal self-attention: qkv (B, T, 3C) -> out (B, T, C) ---
    /// `log_sum` (B, H, T) keeps the logarithm of each softmax denominator, from which backward
    /// finds the probabilities again. Dropout acts on them, with elements numbered (B, H, T, T).
    virtual void attention(Tensor out, Tensor log_sum, Tensor qkv,
                           std::optional<Dropout> dropout) = 0;
    virtual void attention_backward(Tensor d_qkv, Tensor d_out, Tensor out, Tensor log_sum,
                                    Tensor qkv, std::optional<Dropout> dropout) = 0;

    // --- loss ---
    /// logits (R, V) become the gradient of (sum of the rows' losses) * gradient_scale; `loss`
    /// (scalar f64) becomes that sum, unscaled, added up in row order. targets (R) are i32.
    virtual void cross_entropy(Tensor loss, Tensor logits, Tensor targets,
                               double gradient_scale) = 0;

    // --- optimizer, on a chunk ---
    /// `sums` (N, f64) become the sums of squares of as many tensors, each in element order. Such a
    /// sum is a chain in which each addition waits for the one before; several go side by side.
    virtual void sums_of_squares(Tensor sums, std::span<const Tensor> of) = 0;
    void sum_of_squares(Tensor sum, const Tensor& x) { sums_of_squares(sum, std::span{&x, 1}); }
    virtual void adamw(Tensor parameter, Tensor first_moment, Tensor second_moment, Tensor gradient,
                       const AdamWStep& step) = 0;
};

class Device {
  public:
    virtual ~Device() = default;

    /// Aligned for any operation; contents are undefined. Throws std::bad_alloc.
    [[nodiscard]] virtual Memory allocate(std::int64_t bytes) = 0;
    [[nodiscard]] virtual std::unique_ptr<Stream> make_stream() = 0;
    /// Everything besides the mathematics keys that may decide the last bit of a result: backend,
    /// build, instruction set, compute threads.
    [[nodiscard]] virtual std::string fingerprint() const = 0;
};

/// Plain loops on the host: the judge of every other backend. `threads` compute threads in all,
/// the caller's included; results do not depend on how many. The threads serve all streams of the
/// device, so one host thread at a time may call them. Throws ConfigError if the system does not
/// give so many threads.
[[nodiscard]] std::unique_ptr<Device> make_reference_device(std::int32_t threads);

/// The same by oneDNN and vectors, as fast as the host can; single precision only, double precision
/// is the reference's. Threads and errors likewise.
[[nodiscard]] std::unique_ptr<Device> make_cpu_device(std::int32_t threads);

/// A device whose linear layers take factors in bf16, and which is the inner one in all else.
[[nodiscard]] std::unique_ptr<Device> make_bf16_device(std::unique_ptr<Device> inner);

/// Byte offsets at which tensors of these specs can lie in one piece of memory, and its size.
struct Layout {
    explicit Layout(std::span<const TensorSpec> specs);

    std::vector<std::int64_t> offsets;
    std::int64_t bytes = 0;

    /// One cache line and one AVX-512 register; CUDA asks for no more.
    static constexpr std::int64_t alignment = 64;
};

}  // namespace rhizome::device
