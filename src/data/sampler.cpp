#include "data/sampler.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "core/error.hpp"
#include "core/random.hpp"

namespace rhizome::data {
namespace {

constexpr std::uint32_t feistel_rounds = 8;

}  // namespace

std::int64_t permuted(std::uint64_t seed, std::uint32_t pass, std::int64_t samples,
                      std::int64_t place) {
    ENSURE(samples > 0 && place >= 0 && place < samples);
    const auto count = static_cast<std::uint64_t>(samples);
    // max(1, ceil(log2(N) / 2)), at most 32: a half always fits a word of the counter.
    const int half_bits = std::max(1, (static_cast<int>(std::bit_width(count - 1)) + 1) / 2);
    const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;

    auto x = static_cast<std::uint64_t>(place);
    // Ends: the network permutes 2^(2h) values, so walking its cycle comes back to `place`, which
    // is below N, at the latest. 2^(2h) <= 4 N makes it four turns on average.
    do {
        std::uint64_t left = x >> half_bits;
        std::uint64_t right = x & mask;
        for (std::uint32_t round = 0; round < feistel_rounds; ++round) {
            const auto block = static_cast<std::uint32_t>(right);
            const std::uint64_t f = RandomSite::sampler(seed, pass, round).words(block)[0] & mask;
            const std::uint64_t mixed = left ^ f;
            left = right;
            right = mixed;
        }
        x = left << half_bits | right;
    } while (x >= count);
    return static_cast<std::int64_t>(x);
}

Sampler::Sampler(std::uint64_t seed, std::int64_t samples, std::int32_t microbatches,
                 std::int32_t rows)
    : seed_{seed}, samples_{samples}, microbatches_{microbatches}, rows_{rows} {
    ENSURE(samples > 0 && microbatches > 0 && rows > 0);
    ENSURE(std::int64_t{microbatches} * rows <= std::int64_t{1} << 32);
}

std::int64_t Sampler::sample(Step step, Microbatch microbatch, std::int32_t row) const {
    ENSURE(microbatch.value() < microbatches_);
    ENSURE(row >= 0 && row < rows_);
    const std::int64_t first = std::int64_t{microbatches_} * rows_ * step.value();
    const std::int64_t number = first + std::int64_t{microbatch.value()} * rows_ + row;
    const std::int64_t pass = number / samples_;
    ENSURE(pass <= std::numeric_limits<std::uint32_t>::max());
    return permuted(seed_, static_cast<std::uint32_t>(pass), samples_, number % samples_);
}

}  // namespace rhizome::data
