// Every backward operation of the reference device against finite differences of its forward one.
#include <gmock/gmock.h>

#include "support/finite_differences.hpp"

namespace rhizome::tests {
namespace {

using device::Dropout;
using device::Tensor;

constexpr double tolerance = 1e-9;  // of the largest derivative

/// One operation in f64. Its output times a random direction is the number that is differentiated;
/// the direction is also what backward gets as the gradient of the output.
class Gradients : public testing::Test {
  protected:
    Tensor random(const Shape& shape) { return bench.random(shape, DType::f64, ++seed_); }
    Tensor poisoned(const Shape& shape) { return bench.poisoned(shape, DType::f64); }
    Tensor tokens(const Shape& shape, std::int32_t vocabulary) {
        std::vector<double> ids;
        for (std::int32_t i = 0; i < shape.elements(); ++i) ids.push_back((i * i + 2) % vocabulary);
        return bench.put(shape, DType::i32, ids);
    }
    [[nodiscard]] double along(const Tensor& output, const Tensor& direction) {
        return dot(bench.read(output), bench.read(direction));
    }

    /// An input's gradient: `backward` has overwritten it.
    void expect_input_gradient(const Tensor& d_x, const Tensor& x,
                               const std::function<double()>& f) {
        const auto expected = finite_differences(bench, x, f);
        EXPECT_GT(largest_of(expected), 0.01) << "a gradient of nothing proves nothing";
        expect_close(bench.read(d_x), expected, tolerance);
    }
    /// A parameter's gradient: `backward` has added to `start`.
    void expect_added_gradient(const Tensor& gradient, const std::vector<double>& start,
                               const Tensor& parameter, const std::function<double()>& f) {
        std::vector<double> added = bench.read(gradient);
        for (std::size_t i = 0; i < added.size(); ++i) added[i] -= start[i];
        const auto expected = finite_differences(bench, parameter, f);
        EXPECT_GT(largest_of(expected), 0.01) << "a gradient of nothing proves nothing";
        expect_close(added, expected, tolerance);
    }

    static Dropout some_dropout() {
        return {0.3, RandomSite::in_step(5, LayerId{1}, 2, Step{3}, Microbatch{4})};
    }

    Workbench bench;
    device::Stream& stream = bench.stream();

  private:
    std::uint64_t seed_ = 0;
};

TEST_F(Gradients, OfDropout) {
    const Tensor x = random(Shape{5, 7});
    const Tensor direction = random(Shape{5, 7});
    const Tensor out = poisoned(Shape{5, 7});
    const Tensor d_x = poisoned(Shape{5, 7});
    stream.dropout(d_x, direction, some_dropout());
    expect_input_gradient(d_x, x, [&] {
        stream.dropout(out, x, some_dropout());
        return along(out, direction);
    });
}

TEST_F(Gradients, OfGelu) {
    const Tensor x = random(Shape{37});
    for (int doubling = 0; doubling < 2; ++doubling) stream.add(x, x, x);  // into [-4, 4)
    const Tensor direction = random(Shape{37});
    const Tensor out = poisoned(Shape{37});
    const Tensor d_x = poisoned(Shape{37});
    stream.gelu_backward(d_x, direction, x);
    expect_input_gradient(d_x, x, [&] {
        stream.gelu(out, x);
        return along(out, direction);
    });
}

TEST_F(Gradients, OfTheEmbedding) {
    const Tensor ids = tokens(Shape{3, 5}, 7);
    const Tensor token = random(Shape{7, 3});
    const Tensor position = random(Shape{5, 3});
    const Tensor direction = random(Shape{3, 5, 3});
    const Tensor out = poisoned(Shape{3, 5, 3});
    const Tensor d_token = random(Shape{7, 3});
    const Tensor d_position = random(Shape{5, 3});
    const auto start_token = bench.read(d_token);
    const auto start_position = bench.read(d_position);
    stream.embed_backward(d_token, d_position, direction, ids);
    const auto f = [&] {
        stream.embed(out, ids, token, position);
        return along(out, direction);
    };
    expect_added_gradient(d_token, start_token, token, f);
    expect_added_gradient(d_position, start_position, position, f);
}

TEST_F(Gradients, OfTheNorm) {
    for (const Shape& shape : {Shape{5, 7}, Shape{1, 2}, Shape{3, 13}}) {
        const Shape row{shape[1]};
        const Tensor x = random(shape);
        const Tensor weight = random(row);
        const Tensor bias = random(row);
        const Tensor direction = random(shape);
        const Tensor out = poisoned(shape);
        const Tensor mean = poisoned(Shape{shape[0]});
        const Tensor inverse = poisoned(Shape{shape[0]});
        const Tensor d_x = poisoned(shape);
        const Tensor d_weight = random(row);
        const Tensor d_bias = random(row);
        const auto start_weight = bench.read(d_weight);
        const auto start_bias = bench.read(d_bias);
        const auto f = [&] {
            stream.norm(out, mean, inverse, x, weight, bias);
            return along(out, direction);
        };
        f();
        stream.norm_backward_input(d_x, direction, x, mean, inverse, weight);
        stream.norm_backward_weight(d_weight, d_bias, direction, x, mean, inverse);
        expect_added_gradient(d_weight, start_weight, weight, f);
        expect_added_gradient(d_bias, start_bias, bias, f);
        // Two channels become -1 and 1 whatever they were: no gradient but epsilon's.
        if (shape[1] > 2) expect_input_gradient(d_x, x, f);
    }
}

TEST_F(Gradients, OfLinear) {
    const Tensor x = random(Shape{5, 7});
    const Tensor weight = random(Shape{9, 7});
    const Tensor bias = random(Shape{9});
    const Tensor direction = random(Shape{5, 9});
    const Tensor out = poisoned(Shape{5, 9});
    const Tensor d_x = poisoned(Shape{5, 7});
    const Tensor d_weight = random(Shape{9, 7});
    const Tensor d_bias = random(Shape{9});
    const auto start_weight = bench.read(d_weight);
    const auto start_bias = bench.read(d_bias);
    stream.linear_backward_input(d_x, direction, weight);
    stream.linear_backward_weight(d_weight, d_bias, direction, x);
    const auto f = [&] {
        stream.linear(out, x, weight, bias);
        return along(out, direction);
    };
    expect_input_gradient(d_x, x, f);
    expect_added_gradient(d_weight, start_weight, weight, f);
    expect_added_gradient(d_bias, start_bias, bias, f);
}

TEST_F(Gradients, OfLinearWithoutABias) {
    const Tensor x = random(Shape{3, 7});
    const Tensor weight = random(Shape{5, 7});
    const Tensor direction = random(Shape{3, 5});
    const Tensor out = poisoned(Shape{3, 5});
    const Tensor d_weight = random(Shape{5, 7});
    const auto start = bench.read(d_weight);
    stream.linear_backward_weight(d_weight, std::nullopt, direction, x);
    expect_added_gradient(d_weight, start, weight, [&] {
        stream.linear(out, x, weight, std::nullopt);
        return along(out, direction);
    });
}

TEST_F(Gradients, OfAttentionWithAndWithoutDropout) {
    for (const auto& dropout : {std::optional<Dropout>{}, std::optional{some_dropout()}}) {
        const Tensor qkv = random(Shape{2, 5, 18});
        const Tensor direction = random(Shape{2, 5, 6});
        const Tensor out = poisoned(Shape{2, 5, 6});
        const Tensor log_sum = poisoned(Shape{2, 2, 5});
        const Tensor d_qkv = poisoned(Shape{2, 5, 18});
        const auto f = [&] {
            stream.attention(out, log_sum, qkv, dropout);
            return along(out, direction);
        };
        f();
        stream.attention_backward(d_qkv, direction, out, log_sum, qkv, dropout);
        expect_input_gradient(d_qkv, qkv, f);
    }
}

TEST_F(Gradients, OfCrossEntropy) {
    constexpr double gradient_scale = 0.25;
    const Shape shape{5, 7};
    const Tensor targets = tokens(Shape{5}, 7);
    const Tensor logits = random(shape);
    const Tensor work = poisoned(shape);  // logits on the way in, their gradient on the way out
    const Tensor loss = poisoned(Shape{});
    const auto f = [&] {
        stream.copy(work, logits);
        stream.cross_entropy(loss, work, targets, gradient_scale);
        return bench.read(loss)[0] * gradient_scale;
    };
    f();
    const std::vector<double> gradient = bench.read(work);
    expect_close(gradient, finite_differences(bench, logits, f), tolerance);
    EXPECT_GT(largest_of(gradient), 0.01);
}

// The tool itself, on functions whose derivatives are known.
TEST_F(Gradients, AreFoundByFiniteDifferencesWhichLeaveTheirArgumentAlone) {
    const Tensor x = bench.put(Shape{3}, DType::f64, {0.5, -1, 2});
    const auto before = bench.bytes(x);
    const auto derivatives = finite_differences(bench, x, [&] {
        const auto v = bench.read(x);
        return std::exp(v[0]) + v[1] * v[1] * v[2];
    });
    expect_close(derivatives, {std::exp(0.5), -4, 1}, 1e-11);
    EXPECT_EQ(bench.bytes(x), before);
    EXPECT_THAT(some_elements(10, 4), testing::ElementsAre(0, 2, 5, 7));
    EXPECT_THAT(some_elements(3, 60), testing::ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace rhizome::tests
