// How many threads compute shows in no bit of any operation's result.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "support/device_case.hpp"

namespace rhizome::tests {
namespace {

using device::Dropout;
using device::Tensor;

using Results = std::map<std::string, std::vector<std::byte>>;

/// Runs operations on tensors with an odd number of rows and channels.
struct AllOperations {
    explicit AllOperations(Workbench& workbench, DType type)
        : bench{workbench}, stream{workbench.stream()}, dtype{type} {}

    Tensor random(const Shape& shape) { return bench.random(shape, dtype, ++seed); }
    Tensor empty(const Shape& shape) { return bench.poisoned(shape, dtype); }
    Tensor scalar() { return bench.poisoned(Shape{}, DType::f64); }
    void keep(const std::string& name, const Tensor& tensor) {
        EXPECT_TRUE(results.emplace(name, bench.bytes(tensor)).second) << name;
    }

    void element_by_element() {
        const Tensor a = random(Shape{n});
        const Tensor b = random(Shape{n});
        const Tensor out = empty(Shape{n});
        stream.add(out, a, b);
        keep("add", out);
        stream.dropout(out, a, dropout);
        keep("dropout", out);
        stream.gelu(out, a);
        keep("gelu", out);
        stream.gelu_backward(out, a, b);
        keep("gelu_backward", out);
        stream.copy(out, a);
        keep("copy", out);
        stream.zero(out);
        keep("zero", out);
    }
    void embedding() {
        std::vector<double> ids;
        for (int i = 0; i < 3 * 7; ++i) ids.push_back(i * i % 5);
        const Tensor tokens = bench.put(Shape{3, 7}, DType::i32, ids);
        const Tensor token = random(Shape{5, 13});
        const Tensor position = random(Shape{7, 13});
        const Tensor out = empty(Shape{3, 7, 13});
        stream.embed(out, tokens, token, position);
        keep("embed", out);
        stream.embed_backward(token, position, out, tokens);
        keep("embed_backward token", token);
        keep("embed_backward position", position);
    }
    void norm() {
        const Shape shape{7, 33};
        const Tensor x = random(shape);
        const Tensor weight = random(Shape{33});
        const Tensor bias = random(Shape{33});
        const Tensor mean = empty(Shape{7});
        const Tensor inverse = empty(Shape{7});
        const Tensor out = empty(shape);
        stream.norm(out, mean, inverse, x, weight, bias);
        keep("norm", out);
        keep("norm mean", mean);
        keep("norm inverse", inverse);
        const Tensor d_out = random(shape);
        stream.norm_backward_input(out, d_out, x, mean, inverse, weight);
        keep("norm_backward_input", out);
        stream.norm_backward_weight(weight, bias, d_out, x, mean, inverse);
        keep("norm_backward_weight weight", weight);
        keep("norm_backward_weight bias", bias);
    }
    void linear() {
        const Tensor x = random(Shape{13, 33});
        const Tensor weight = random(Shape{65, 33});
        const Tensor bias = random(Shape{65});
        const Tensor out = empty(Shape{13, 65});
        stream.linear(out, x, weight, std::nullopt);
        keep("linear", out);
        stream.linear(out, x, weight, bias);
        keep("linear with bias", out);
        const Tensor d_x = empty(Shape{13, 33});
        stream.linear_backward_input(d_x, out, weight);
        keep("linear_backward_input", d_x);
        stream.linear_backward_weight(weight, bias, out, x);
        keep("linear_backward_weight weight", weight);
        keep("linear_backward_weight bias", bias);
    }
    void attention() {
        const Tensor qkv = random(Shape{2, 13, 27});
        for (const auto& drop : {std::optional<Dropout>{}, std::optional{dropout}}) {
            const std::string with = drop ? " with dropout" : "";
            const Tensor out = empty(Shape{2, 13, 9});
            const Tensor log_sum = empty(Shape{2, 3, 13});
            stream.attention(out, log_sum, qkv, drop);
            keep("attention" + with, out);
            keep("attention log_sum" + with, log_sum);
            const Tensor d_qkv = empty(Shape{2, 13, 27});
            stream.attention_backward(d_qkv, random(Shape{2, 13, 9}), out, log_sum, qkv, drop);
            keep("attention_backward" + with, d_qkv);
        }
    }
    void loss_and_optimizer() {
        const Tensor logits = random(Shape{33, 7});
        const Tensor targets = bench.put(Shape{33}, DType::i32, std::vector<double>(33, 4.0));
        const Tensor sum = scalar();
        stream.cross_entropy(sum, logits, targets, 0.125);
        keep("cross_entropy", sum);
        keep("cross_entropy gradient", logits);
        stream.sum_of_squares(sum, logits);
        keep("sum_of_squares", sum);
        const Tensor p = random(Shape{n});
        const Tensor m = random(Shape{n});
        const Tensor v = empty(Shape{n});
        stream.zero(v);
        stream.adamw(p, m, v, random(Shape{n}),
                     {.rate = 0.1,
                      .decay = 0.1,
                      .beta1 = 0.9,
                      .beta2 = 0.95,
                      .epsilon = 1e-8,
                      .gradient_scale = 0.3,
                      .first_correction = 0.1,
                      .second_correction = 0.05});
        keep("adamw parameter", p);
        keep("adamw first moment", m);
        keep("adamw second moment", v);
    }

    static constexpr std::int64_t n = 133;
    const Dropout dropout{0.3, RandomSite::in_step(1, LayerId{2}, 3, Step{4}, Microbatch{5})};
    Workbench& bench;
    device::Stream& stream;
    DType dtype;
    std::uint64_t seed = 0;
    Results results;
};

Results results_with(std::int32_t threads, DType dtype) {
    Workbench bench{threads};
    AllOperations operations{bench, dtype};
    operations.element_by_element();
    operations.embedding();
    operations.norm();
    operations.linear();
    operations.attention();
    operations.loss_and_optimizer();
    return operations.results;
}

class Threads : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, Threads, testing::Values(DType::f32, DType::f64), name_of_dtype);

TEST_P(Threads, ShowInNoResultOfAnyOperation) {
    const Results alone = results_with(1, GetParam());
    EXPECT_EQ(alone.size(), 32U);
    for (const std::int32_t threads : {1, 2, 3}) {
        const Results together = results_with(threads, GetParam());
        ASSERT_EQ(together.size(), alone.size());
        for (const auto& [name, bytes] : alone) {
            EXPECT_EQ(together.at(name), bytes) << name << " with " << threads << " threads";
        }
    }
}

}  // namespace
}  // namespace rhizome::tests
