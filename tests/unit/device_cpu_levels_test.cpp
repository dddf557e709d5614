// The cpu backend's loops are compiled for several levels of instructions: on one processor all
// give the same bits, at sizes that fill no register.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

#include "device/cpu_kernels.hpp"

namespace rhizome::device::cpu {
namespace {

using Numbers = std::vector<float>;

/// Between -size and size.
Numbers some(std::int64_t count, std::uint32_t seed, float size = 3.0F) {
    Numbers numbers(static_cast<std::size_t>(count));
    for (float& number : numbers) {
        seed = seed * 1664525U + 1013904223U;
        number = size * (static_cast<float>(seed >> 8U) / 8388608.0F - 1.0F);
    }
    return numbers;
}

/// What a call with one level's loops leaves in memory.
using Call = std::function<std::vector<Numbers>(const Kernels&)>;

void expect_same_bits(const Call& call) {
    const auto levels = kernels_here();
    ASSERT_FALSE(levels.empty());
    if (levels.size() == 1) GTEST_SKIP() << "there is one level here";
    const std::vector<Numbers> first = call(*levels.front());
    for (std::size_t number = 1; number < levels.size(); ++number) {
        const std::vector<Numbers> found = call(*levels[number]);
        ASSERT_EQ(found.size(), first.size());
        for (std::size_t i = 0; i < first.size(); ++i) {
            ASSERT_EQ(found[i].size(), first[i].size());
            EXPECT_EQ(
                std::memcmp(found[i].data(), first[i].data(), first[i].size() * sizeof(float)), 0)
                << "tensor " << i << " of level " << number;
        }
    }
}

class CpuLevels : public testing::Test {
  protected:
    ThreadPool pool{1};
    const Extent extent{.rows = 5, .columns = 77};
    const std::int64_t elements = extent.rows * extent.columns;
    const Numbers x = some(elements, 1);
    const Numbers d = some(elements, 2);
    const Numbers weight = some(extent.columns, 3);
    const Numbers bias = some(extent.columns, 4);
};

TEST_F(CpuLevels, ElementByElement) {
    expect_same_bits([&](const Kernels& level) {
        Numbers out = x;
        Numbers d_x = x;
        level.gelu(pool, out.data(), x.data(), elements);
        level.gelu_backward(pool, d_x.data(), d.data(), x.data(), elements);
        return std::vector{out, d_x};
    });
}

TEST_F(CpuLevels, RowByRow) {
    expect_same_bits([&](const Kernels& level) {
        Numbers out = x;
        Numbers mean = some(extent.rows, 5);
        Numbers inverse = mean;
        Numbers d_x = x;
        Numbers d_weight = weight;
        Numbers d_bias = bias;
        Numbers sums = bias;
        Numbers repeated = x;
        level.norm(pool, extent, out.data(), mean.data(), inverse.data(), x.data(), weight.data(),
                   bias.data());
        level.norm_backward_input(pool, extent, d_x.data(), d.data(), x.data(), mean.data(),
                                  inverse.data(), weight.data());
        level.norm_backward_weight(pool, extent, d_weight.data(), d_bias.data(), d.data(), x.data(),
                                   mean.data(), inverse.data());
        level.add_rows(pool, extent, sums.data(), x.data());
        level.repeat_row(pool, extent, repeated.data(), weight.data());
        return std::vector{out, mean, inverse, d_x, d_weight, d_bias, sums, repeated};
    });
}

TEST_F(CpuLevels, Loss) {
    const std::vector<std::int32_t> targets{0, 76, 3, 16, 64};
    expect_same_bits([&](const Kernels& level) {
        Numbers logits = x;
        const double loss = level.cross_entropy(pool, extent, logits.data(), targets.data(), 0.125);
        Numbers bits(2);
        std::memcpy(bits.data(), &loss, sizeof loss);
        return std::vector{logits, bits};
    });
}

TEST_F(CpuLevels, Attention) {
    // More positions than a block has queries.
    const AttentionShape shape{.rows = 2, .positions = 75, .channels = 42, .heads = 3};
    const std::int64_t outputs = shape.rows * shape.positions * shape.channels;
    const Numbers qkv = some(3 * outputs, 6, 1.0F);
    const Numbers d_out = some(outputs, 7, 1.0F);
    for (const double probability : {0.0, 0.25}) {
        std::optional<Dropout> dropout;
        if (probability > 0) {
            dropout =
                Dropout{probability, RandomSite::in_step(1, LayerId{1}, 0, Step{0}, Microbatch{0})};
        }
        expect_same_bits([&](const Kernels& level) {
            Numbers out(static_cast<std::size_t>(outputs));
            Numbers log_sum(static_cast<std::size_t>(shape.rows * shape.heads * shape.positions));
            Numbers d_qkv(qkv.size());
            level.attention(pool, shape, out.data(), log_sum.data(), qkv.data(), dropout);
            level.attention_backward(pool, shape, d_qkv.data(), d_out.data(), out.data(),
                                     log_sum.data(), qkv.data(), dropout);
            return std::vector{out, log_sum, d_qkv};
        });
    }
}

}  // namespace
}  // namespace rhizome::device::cpu
