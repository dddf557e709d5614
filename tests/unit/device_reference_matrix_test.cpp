// Matrix products of the reference device: by hand, and to the last bit against the plain triple
// loop whose order reference_matrix.hpp promises.
#include <gmock/gmock.h>

#include "support/device_case.hpp"

namespace rhizome::tests {
namespace {

using device::Tensor;
using testing::ElementsAre;
using testing::ExitedWithCode;

using Matrices = DeviceCase;
INSTANTIATE_TEST_SUITE_P(Types, Matrices, testing::Values(DType::f32, DType::f64), name_of_dtype);

TEST_P(Matrices, LinearMultipliesWithTheTransposedWeightAndAddsTheBias) {
    const Tensor x = put(Shape{2, 3}, {1, 2, 3, 4, 5, 6});
    const Tensor weight = put(Shape{2, 3}, {1, 0, -1, 2, 1, 0});
    const Tensor out = poisoned(Shape{2, 2});
    stream.linear(out, x, weight, std::nullopt);
    EXPECT_THAT(read(out), ElementsAre(-2, 4, -2, 13));
    stream.linear(out, x, weight, put(Shape{2}, {100, 200}));
    EXPECT_THAT(read(out), ElementsAre(98, 204, 98, 213));
}

TEST_P(Matrices, LinearTakesAllLeadingExtentsAsRows) {
    const Tensor x = put(Shape{2, 1, 2}, {1, 2, 3, 4});
    const Tensor out = poisoned(Shape{2, 1, 1});
    stream.linear(out, x, put(Shape{1, 2}, {10, 1}), std::nullopt);
    EXPECT_THAT(read(out), ElementsAre(12, 34));
}

TEST_P(Matrices, LinearBackwardInputMultipliesWithTheWeightAndOverwrites) {
    const Tensor d_out = put(Shape{2, 2}, {1, 2, 3, 4});
    const Tensor weight = put(Shape{2, 3}, {1, 0, -1, 2, 1, 0});
    const Tensor d_x = poisoned(Shape{2, 3});
    stream.linear_backward_input(d_x, d_out, weight);
    EXPECT_THAT(read(d_x), ElementsAre(5, 2, -1, 11, 4, -3));
}

TEST_P(Matrices, LinearBackwardWeightAddsToWhatWasThere) {
    const Tensor d_out = put(Shape{2, 2}, {1, 2, 3, 4});
    const Tensor x = put(Shape{2, 3}, {1, 2, 3, 4, 5, 6});
    const Tensor d_weight = put(Shape{2, 3}, {100, 100, 100, 200, 200, 200});
    const Tensor d_bias = put(Shape{2}, {1000, 2000});
    stream.linear_backward_weight(d_weight, d_bias, d_out, x);
    EXPECT_THAT(read(d_weight), ElementsAre(113, 117, 121, 218, 224, 230));
    EXPECT_THAT(read(d_bias), ElementsAre(1004, 2006));
    stream.linear_backward_weight(d_weight, std::nullopt, d_out, x);
    EXPECT_THAT(read(d_weight), ElementsAre(126, 134, 142, 236, 248, 260));
    EXPECT_THAT(read(d_bias), ElementsAre(1004, 2006));
}

struct Sizes {
    std::int64_t rows;
    std::int64_t inputs;
    std::int64_t outputs;
};

/// Around the tile of 6 rows and 16 or 8 columns, and larger than several.
constexpr std::array sizes{Sizes{1, 1, 1},   Sizes{5, 3, 7},   Sizes{6, 9, 8},   Sizes{7, 13, 17},
                           Sizes{13, 1, 16}, Sizes{12, 8, 16}, Sizes{33, 7, 15}, Sizes{1, 65, 33},
                           Sizes{65, 33, 1}, Sizes{13, 65, 33}};

/// The three products with the tensors they need.
struct Products {
    Products(Workbench& bench, DType dtype, const Sizes& n)
        : x{bench.random(Shape{n.rows, n.inputs}, dtype, 1)},
          weight{bench.random(Shape{n.outputs, n.inputs}, dtype, 2)},
          bias{bench.random(Shape{n.outputs}, dtype, 3)},
          d_out{bench.random(Shape{n.rows, n.outputs}, dtype, 4)},
          d_weight{bench.random(Shape{n.outputs, n.inputs}, dtype, 5)},
          d_bias{bench.random(Shape{n.outputs}, dtype, 6)},
          out{bench.poisoned(Shape{n.rows, n.outputs}, dtype)},
          d_x{bench.poisoned(Shape{n.rows, n.inputs}, dtype)} {}

    Tensor x, weight, bias, d_out, d_weight, d_bias, out, d_x;
};

/// One chain of products added in ascending order to `start`, each product rounded before its sum.
template <class T, class Product>
T chain(T start, std::int64_t count, const Product& product) {
    T sum = start;
    for (std::int64_t k = 0; k < count; ++k) {
        const T rounded = product(static_cast<std::size_t>(k));
        sum = sum + rounded;
    }
    return sum;
}

template <class T>
void expect_naive_products(Workbench& bench, DType dtype, const Sizes& n) {
    SCOPED_TRACE(testing::Message() << n.rows << " x " << n.inputs << " x " << n.outputs);
    const Products p{bench, dtype, n};
    const auto x = bench.read_as<T>(p.x);
    const auto weight = bench.read_as<T>(p.weight);
    const auto bias = bench.read_as<T>(p.bias);
    const auto d_out = bench.read_as<T>(p.d_out);
    auto d_weight = bench.read_as<T>(p.d_weight);
    auto d_bias = bench.read_as<T>(p.d_bias);
    const auto rows = static_cast<std::size_t>(n.rows);
    const auto inputs = static_cast<std::size_t>(n.inputs);
    const auto outputs = static_cast<std::size_t>(n.outputs);
    std::vector<T> plain(rows * outputs);
    std::vector<T> with_bias(rows * outputs);
    std::vector<T> d_x(rows * inputs);

    for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t o = 0; o < outputs; ++o) {
            const auto product = [&](std::size_t i) {
                return x[r * inputs + i] * weight[o * inputs + i];
            };
            plain[r * outputs + o] = chain(T{0}, n.inputs, product);
            with_bias[r * outputs + o] = chain(bias[o], n.inputs, product);
        }
        for (std::size_t i = 0; i < inputs; ++i) {
            d_x[r * inputs + i] = chain(T{0}, n.outputs, [&](std::size_t o) {
                return d_out[r * outputs + o] * weight[o * inputs + i];
            });
        }
    }
    for (std::size_t o = 0; o < outputs; ++o) {
        for (std::size_t i = 0; i < inputs; ++i) {
            d_weight[o * inputs + i] = chain(d_weight[o * inputs + i], n.rows, [&](std::size_t r) {
                return d_out[r * outputs + o] * x[r * inputs + i];
            });
        }
        d_bias[o] = chain(d_bias[o], n.rows, [&](std::size_t r) { return d_out[r * outputs + o]; });
    }

    bench.stream().linear(p.out, p.x, p.weight, std::nullopt);
    EXPECT_EQ(bench.read_as<T>(p.out), plain);
    bench.stream().linear(p.out, p.x, p.weight, p.bias);
    EXPECT_EQ(bench.read_as<T>(p.out), with_bias);
    bench.stream().linear_backward_input(p.d_x, p.d_out, p.weight);
    EXPECT_EQ(bench.read_as<T>(p.d_x), d_x);
    bench.stream().linear_backward_weight(p.d_weight, p.d_bias, p.d_out, p.x);
    EXPECT_EQ(bench.read_as<T>(p.d_weight), d_weight);
    EXPECT_EQ(bench.read_as<T>(p.d_bias), d_bias);
}

TEST_P(Matrices, ProductsEqualThePlainLoopsToTheLastBit) {
    for (const Sizes& n : sizes) {
        if (dtype() == DType::f64) {
            expect_naive_products<double>(bench, dtype(), n);
        } else {
            expect_naive_products<float>(bench, dtype(), n);
        }
    }
}

TEST_P(Matrices, ProductsWriteNoInput) {
    const Sizes n{7, 13, 17};
    const Products p{bench, dtype(), n};
    const std::vector<Tensor> inputs{p.x, p.weight, p.bias, p.d_out};
    std::vector<std::vector<std::byte>> before;
    for (const Tensor& tensor : inputs) before.push_back(bench.bytes(tensor));
    stream.linear(p.out, p.x, p.weight, p.bias);
    stream.linear_backward_input(p.d_x, p.d_out, p.weight);
    stream.linear_backward_weight(p.d_weight, p.d_bias, p.d_out, p.x);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        EXPECT_EQ(bench.bytes(inputs[i]), before[i]) << i;
    }
}

TEST(MatricesDeathTest, RefuseShapesThatDoNotFitAndMixedTypes) {
    Workbench bench;
    const auto tensor = [&](const Shape& shape, DType dtype = DType::f32) {
        return bench.random(shape, dtype, 1);
    };
    const Tensor out = tensor(Shape{2, 3});
    const Tensor x = tensor(Shape{2, 5});
    const Tensor weight = tensor(Shape{3, 5});
    device::Stream& stream = bench.stream();
    stream.linear(out, x, weight, tensor(Shape{3}));  // these fit
    EXPECT_EXIT(stream.linear(out, x, tensor(Shape{3, 4}), std::nullopt), ExitedWithCode(1),
                "broken promise");
    EXPECT_EXIT(stream.linear(out, x, tensor(Shape{2, 5}), std::nullopt), ExitedWithCode(1),
                "broken promise");
    EXPECT_EXIT(stream.linear(out, x, weight, tensor(Shape{2})), ExitedWithCode(1),
                "broken promise");
    EXPECT_EXIT(stream.linear(out, x, tensor(Shape{3, 5}, DType::f64), std::nullopt),
                ExitedWithCode(1), "broken promise");
    EXPECT_EXIT(stream.linear_backward_input(x, tensor(Shape{3, 3}), weight), ExitedWithCode(1),
                "broken promise");
    EXPECT_EXIT(stream.linear_backward_weight(weight, tensor(Shape{4}), out, x), ExitedWithCode(1),
                "broken promise");
}

}  // namespace
}  // namespace rhizome::tests
