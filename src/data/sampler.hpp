// Which sample a row of a microbatch of a step trains: a pure function, so that any worker knows it
// for any place without asking, and a step repeated after a loss trains the same samples.
//
// Rows have running numbers over the whole training; each N of them are a pass, and a pass is a
// permutation of the samples. A step may lie across the border of two passes.
//
// The permutation is a Feistel network over the smallest even number of bits that holds N, repeated
// until its value is a sample ("cycle walking"; Black and Rogaway, Ciphers with Arbitrary Finite
// Domains, CT-RSA 2002). It needs no memory, whatever N is. docs/MATHEMATICS.md is the contract.
#pragma once

#include <cstdint>

#include "core/ids.hpp"

namespace rhizome::data {

/// The sample at `place` of a pass. Bijective on [0, samples) for each seed and pass.
[[nodiscard]] std::int64_t permuted(std::uint64_t seed, std::uint32_t pass, std::int64_t samples,
                                    std::int64_t place);

class Sampler {
  public:
    /// `microbatches` per step, `rows` per microbatch. Invariant: all three counts are positive,
    /// and a step has at most 2^32 rows, so that running numbers stay within 63 bits.
    Sampler(std::uint64_t seed, std::int64_t samples, std::int32_t microbatches, std::int32_t rows);

    [[nodiscard]] std::int64_t sample(Step step, Microbatch microbatch, std::int32_t row) const;

  private:
    std::uint64_t seed_;
    std::int64_t samples_;
    std::int32_t microbatches_;
    std::int32_t rows_;
};

}  // namespace rhizome::data
