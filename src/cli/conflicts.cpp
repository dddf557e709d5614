// Rules between keys (find_conflict). Each key's own range is in the table of keys.
#include <algorithm>
#include <initializer_list>
#include <limits>
#include <utility>

#include "cli/keys.hpp"
#include "cli/run_config.hpp"
#include "core/error.hpp"
#include "core/layer_table.hpp"

namespace rhizome::cli {
namespace {

using MaybeConflict = std::optional<Conflict>;

/// key=value, as it stands in all messages.
std::string said(const RunConfig& config, std::string_view name) {
    const Key* key = find_key(name);
    ENSURE(key != nullptr);
    return key->name + "=" + key->print(config);
}

/// The product of positive factors, or the largest number where it does not fit.
std::int64_t product(std::initializer_list<std::int64_t> factors) {
    std::int64_t result = 1;
    for (const std::int64_t factor : factors) {
        if (__builtin_mul_overflow(result, factor, &result)) {
            return std::numeric_limits<std::int64_t>::max();
        }
    }
    return result;
}

/// The divisors of `number` next to `wish`, below and above: "2 or 4".
std::string nearest_divisors(std::int64_t number, std::int64_t wish) {
    std::int64_t below = 1;
    std::int64_t above = number;
    const auto consider = [&](std::int64_t divisor) {
        if (divisor <= wish) below = std::max(below, divisor);
        if (divisor >= wish) above = std::min(above, divisor);
    };
    for (std::int64_t i = 1; i * i <= number; ++i) {
        if (number % i != 0) continue;
        consider(i);
        consider(number / i);
    }
    if (wish > number) return std::to_string(number);
    return std::to_string(below) + " or " + std::to_string(above);
}

MaybeConflict check_divisions(const RunConfig& config) {
    if (config.microbatches % config.lanes != 0) {
        return Conflict{said(config, "lanes") + " (does not divide " +
                            said(config, "microbatches") + "), take " +
                            nearest_divisors(config.microbatches, config.lanes),
                        {"lanes", "microbatches"}};
    }
    if (config.model.channels % config.model.heads != 0) {
        return Conflict{said(config, "model.heads") + " (does not divide " +
                            said(config, "model.channels") + "), take " +
                            nearest_divisors(config.model.channels, config.model.heads),
                        {"model.heads", "model.channels"}};
    }
    return std::nullopt;
}

MaybeConflict check_optimizer(const RunConfig& config) {
    const model::OptimizerConfig& optimizer = config.optimizer;
    if (optimizer.warmup_steps > optimizer.decay_steps) {
        return Conflict{said(config, "optimizer.warmup_steps") + " (more than " +
                            said(config, "optimizer.decay_steps") +
                            "), warm up for fewer steps or decay until a later one",
                        {"optimizer.warmup_steps", "optimizer.decay_steps", "steps"}};
    }
    if (optimizer.final_learning_rate > optimizer.learning_rate) {
        return Conflict{said(config, "optimizer.final_learning_rate") + " (more than " +
                            said(config, "optimizer.learning_rate") + "), take at most that",
                        {"optimizer.final_learning_rate", "optimizer.learning_rate"}};
    }
    constexpr double smallest = std::numeric_limits<float>::denorm_min();
    if (config.precision != device::Precision::fp64 && optimizer.epsilon < smallest) {
        return Conflict{said(config, "optimizer.epsilon") + " (is 0 in " +
                            said(config, "precision") + "), take a larger one such as 1e-8",
                        {"optimizer.epsilon", "precision"}};
    }
    return std::nullopt;
}

MaybeConflict check_layout(const RunConfig& config) {
    const auto pipelines = static_cast<std::int64_t>(config.depths.size());
    if (pipelines > config.lanes) {
        return Conflict{said(config, "pipelines") + " (" + std::to_string(pipelines) +
                            " pipelines for " + said(config, "lanes") +
                            ", and each runs whole lanes), take at most " +
                            std::to_string(config.lanes) + " pipelines or more lanes",
                        {"pipelines", "lanes"}};
    }
    if (config.parts > 1 && config.style != schedule::Style::interleaved) {
        return Conflict{said(config, "parts") +
                            " (only style=interleaved has several stages on a "
                            "worker), take parts=1 or that style",
                        {"parts", "style"}};
    }
    const BoundsConfig& bounds = config.bounds;
    if (bounds.stopped_s >= bounds.stuck_s || bounds.stuck_s >= bounds.wait_s ||
        bounds.wait_s >= bounds.repair_s) {
        return Conflict{said(config, "bounds.stopped_s") + ", " + said(config, "bounds.stuck_s") +
                            ", " + said(config, "bounds.wait_s") + ", " +
                            said(config, "bounds.repair_s") +
                            " (whoever waits would give up before the culprit is found), let each "
                            "be more than the one before",
                        {"bounds.stopped_s", "bounds.stuck_s", "bounds.wait_s", "bounds.repair_s"}};
    }
    constexpr double bound_max = 1e6;
    if (bounds.repair_s > bound_max) {
        return Conflict{
            said(config, "bounds.repair_s") + " (more than eleven days), take at most 1e6",
            {"bounds.repair_s"}};
    }
    return std::nullopt;
}

MaybeConflict check_timeline(const RunConfig& config) {
    if (!config.timeline || config.timeline->first < config.steps) return std::nullopt;
    return Conflict{said(config, "timeline") + " (the last step is " +
                        std::to_string(config.steps - 1) + "), take earlier ones",
                    {"timeline", "steps"}};
}

MaybeConflict check_vocabulary(const RunConfig& config) {
    const std::int64_t vocabulary = config.model.vocabulary;
    const std::vector<std::string> about{"model.vocabulary", "data.format"};
    if (config.data.format == data::Format::bytes && vocabulary < 256) {
        return Conflict{said(config, "model.vocabulary") +
                            " (data.format=bytes needs one for every byte), take at least 256",
                        about};
    }
    if (config.data.format == data::Format::tokens && vocabulary > 65536) {
        return Conflict{said(config, "model.vocabulary") +
                            " (data.format=tokens holds 16-bit tokens), take at most 65536",
                        about};
    }
    return std::nullopt;
}

/// The elements of something, as a product of keys.
struct Extent {
    std::string what;
    std::vector<std::pair<std::string, std::int64_t>> factors;

    [[nodiscard]] std::int64_t elements() const {
        std::int64_t result = 1;
        for (const auto& factor : factors) result = product({result, factor.second});
        return result;
    }
};

MaybeConflict check_extent(const Extent& extent, std::int64_t limit, const std::string& reason) {
    if (extent.elements() <= limit) return std::nullopt;
    Conflict conflict{};
    for (const auto& [key, value] : extent.factors) {
        if (!conflict.message.empty()) conflict.message += " times ";
        conflict.message += key + "=" + std::to_string(value);
        conflict.keys.push_back(key);
    }
    conflict.message += " (more than " + std::to_string(limit) + " " + extent.what + ", " + reason +
                        "), make one of them smaller";
    return conflict;
}

/// Chunks of a tensor are counted in 32 bits.
MaybeConflict check_chunks(const RunConfig& config) {
    const std::int64_t channels = config.model.channels;
    const std::int64_t largest =
        std::max({config.model.vocabulary * channels, config.model.context * channels,
                  4 * channels * channels});
    const std::int64_t least = (largest - 1) / LayerTable::chunks_max + 1;
    if (config.chunk_elements >= least) return std::nullopt;
    return Conflict{said(config, "chunk_elements") + " (a tensor of " + std::to_string(largest) +
                        " elements would have more than " + std::to_string(LayerTable::chunks_max) +
                        " chunks), take at least " + std::to_string(least),
                    {"chunk_elements"}};
}

MaybeConflict check_extents(const RunConfig& config) {
    const model::GptConfig& gpt = config.model;
    const std::pair<std::string, std::int64_t> vocabulary{"model.vocabulary", gpt.vocabulary};
    const std::pair<std::string, std::int64_t> context{"model.context", gpt.context};
    const std::pair<std::string, std::int64_t> channels{"model.channels", gpt.channels};
    const std::pair<std::string, std::int64_t> heads{"model.heads", gpt.heads};
    const std::pair<std::string, std::int64_t> rows{"microbatch_size", config.microbatch_size};
    const std::pair<std::string, std::int64_t> microbatches{"microbatches", config.microbatches};
    const std::pair<std::string, std::int64_t> steps{"steps", config.steps};

    struct Rule {
        Extent extent;
        std::int64_t limit;
        std::string reason;
    };
    // Word 0 of the random numbers' counter is element / 4, in 32 bits (docs/MATHEMATICS.md).
    constexpr std::int64_t drawn_max = std::int64_t{1} << 34;
    const std::string drawn = "as far as random numbers reach";
    // Eight bytes each, dozens of tensors in up to 2^16 layers: the bytes of a network in 63 bits.
    constexpr std::int64_t kept_max = std::int64_t{1} << 38;
    const std::string kept = "as far as memory is counted";
    std::vector<Rule> rules{
        {{"elements in a tensor", {vocabulary, channels}}, drawn_max, drawn},
        {{"elements in a tensor", {context, channels}}, drawn_max, drawn},
        {{"elements in a tensor", {rows, context, channels}}, kept_max / 4, kept},
        {{"elements in a tensor", {rows, context, vocabulary}}, kept_max, kept},
        {{"samples in a step", {microbatches, rows}},
         std::numeric_limits<std::int32_t>::max(),
         "as far as the sampler counts"},
        {{"tokens in a run", {steps, microbatches, rows, context}},
         std::numeric_limits<std::int64_t>::max() - 1,
         "as far as tokens are counted"},
    };
    if (gpt.dropout > 0) {
        rules.push_back({{"elements in a dropout", {rows, context, channels}}, drawn_max, drawn});
        rules.push_back(
            {{"elements in a dropout", {rows, heads, context, context}}, drawn_max, drawn});
    }
    for (const Rule& rule : rules) {
        if (auto conflict = check_extent(rule.extent, rule.limit, rule.reason)) return conflict;
    }
    return std::nullopt;
}

}  // namespace

std::optional<Conflict> find_conflict(const RunConfig& config) {
    for (const auto& check : {check_divisions, check_optimizer, check_layout, check_timeline,
                              check_vocabulary, check_extents, check_chunks}) {
        if (auto conflict = check(config)) return conflict;
    }
    return std::nullopt;
}

}  // namespace rhizome::cli
