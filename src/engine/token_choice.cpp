#include "engine/token_choice.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/error.hpp"

namespace rhizome::engine {
namespace {

/// The likeliest `count` tokens, of equal ones the lower; ascending.
std::vector<std::int32_t> candidates_of(std::span<const double> logits, std::size_t count) {
    std::vector<std::int32_t> tokens(logits.size());
    std::iota(tokens.begin(), tokens.end(), 0);
    if (count >= tokens.size()) return tokens;
    const auto likelier = [&](std::int32_t a, std::int32_t b) {
        const double of_a = logits[static_cast<std::size_t>(a)];
        const double of_b = logits[static_cast<std::size_t>(b)];
        return of_a != of_b ? of_a > of_b : a < b;
    };
    const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(count);
    std::nth_element(tokens.begin(), end, tokens.end(), likelier);  // a total order: one outcome
    tokens.erase(end, tokens.end());
    std::sort(tokens.begin(), tokens.end());
    return tokens;
}

}  // namespace

std::int32_t choose_token(std::span<const double> logits, const TokenRule& rule, double uniform) {
    ENSURE(!logits.empty() && rule.temperature >= 0 && rule.top_k >= 0);
    ENSURE(uniform >= 0 && uniform < 1);
    const auto best = std::max_element(logits.begin(), logits.end());  // the first of several
    if (rule.temperature == 0) return static_cast<std::int32_t>(best - logits.begin());

    const auto tokens = candidates_of(
        logits, rule.top_k == 0 ? logits.size() : static_cast<std::size_t>(rule.top_k));
    std::vector<double> sums;  // of the weights up to each candidate
    double sum = 0;
    for (const std::int32_t token : tokens) {
        sum += std::exp((logits[static_cast<std::size_t>(token)] - *best) / rule.temperature);
        sums.push_back(sum);
    }
    // The best has weight 1, so the sum is positive. Rounding may lift uniform * sum to the sum
    // itself, which nothing exceeds; then it is the last candidate that has weight.
    auto chosen = std::upper_bound(sums.begin(), sums.end(), uniform * sum);
    if (chosen == sums.end()) chosen = std::lower_bound(sums.begin(), sums.end(), sum);
    return tokens[static_cast<std::size_t>(chosen - sums.begin())];
}

}  // namespace rhizome::engine
