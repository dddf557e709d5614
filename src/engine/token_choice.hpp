// Which token comes next, from the logits of all. Pure and on the host, in double and in a fixed
// order, so that the same logits and the same random number give the same token everywhere (but for
// the last bit of the C library's exponential). docs/MATHEMATICS.md has the rule.
#pragma once

#include <cstdint>
#include <span>

namespace rhizome::engine {

struct TokenRule {
    double temperature = 1.0;  // >= 0; 0: the likeliest token
    std::int32_t top_k = 0;    // only the likeliest so many are candidates; 0: all
    friend bool operator==(const TokenRule&, const TokenRule&) = default;
};

/// `logits` are finite, one per token, at least one; `uniform` is in [0, 1).
[[nodiscard]] std::int32_t choose_token(std::span<const double> logits, const TokenRule& rule,
                                        double uniform);

}  // namespace rhizome::engine
