#include "cli/keys.hpp"

#include <algorithm>
#include <limits>

#include "cli/key_forms.hpp"

namespace rhizome::cli {
namespace {

constexpr auto mathematics = KeyKind::mathematics;

MaybeProblem set_size(RunConfig& config, std::string_view text) {
    std::vector<std::string> names;
    for (const model::GptSize& size : model::gpt_sizes) {
        names.emplace_back(size.name);
        if (size.name != text) continue;
        config.model_size = text;
        config.model.blocks = size.blocks;
        config.model.channels = size.channels;
        config.model.heads = size.heads;
        config.model.context = size.context;
        config.model.vocabulary = size.vocabulary;
        return std::nullopt;
    }
    const auto meant = nearest(text, names);
    return Problem{"no such size", meant ? "did you mean " + *meant + "?"
                                         : "`rhizome train --help` lists the sizes"};
}

Key make_size_key() {
    return {
        "model.size",
        mathematics,
        "NAME",
        "A named size, see below: sets blocks, channels, heads, context and vocabulary, each of "
        "which may still be given by itself, in the same place or in one that wins over it.",
        set_size,
        [](const RunConfig& config) { return config.model_size; },
        "none"};
}

Key make_seed_key() {
    return {
        "seed",
        mathematics,
        "0.." + std::to_string(std::numeric_limits<std::uint64_t>::max()),
        "Fixes initial weights, dropout and the order of the samples.",
        [](RunConfig& config, std::string_view text) { return read_unsigned(text, config.seed); },
        [](const RunConfig& config) { return std::to_string(config.seed); },
        ""};
}

std::vector<Key> model_keys() {
    using device::Precision;
    using model::Tying;
    return {
        make_size_key(),
        // The sampler's random numbers have layer number 65535; those below are embedding, blocks,
        // final norm and head.
        whole("model.blocks", mathematics, {1, 65532}, "Transformer blocks.",
              [](auto& c) -> auto& { return c.model.blocks; }),
        // The largest matrix has 4 C C elements, and 2^34 can be drawn.
        whole("model.channels", mathematics, {1, 65535}, "Width of the network.",
              [](auto& c) -> auto& { return c.model.channels; }),
        whole("model.heads", mathematics, {1, 65535},
              "Attention heads; a divisor of model.channels.",
              [](auto& c) -> auto& { return c.model.heads; }),
        whole("model.context", mathematics, {1, 1 << 24}, "Tokens in a sample.",
              [](auto& c) -> auto& { return c.model.context; }),
        whole("model.vocabulary", mathematics, {1, count_max},
              "Different tokens: at least 256 for bytes, at most 65536 for tokens.",
              [](auto& c) -> auto& { return c.model.vocabulary; }),
        choice("model.tied", mathematics,
               Choices<Tying>{{"true", Tying::tied}, {"false", Tying::untied}},
               "Whether the head is the token embedding, used again.",
               [](auto& c) -> auto& { return c.model.tying; }),
        real("model.dropout", mathematics, below_one,
             "Probability with which an activation is dropped in training.",
             [](auto& c) -> auto& { return c.model.dropout; }),
        choice("precision", mathematics,
               Choices<Precision>{
                   {"fp32", Precision::fp32}, {"fp64", Precision::fp64}, {"bf16", Precision::bf16}},
               "Type of weights, activations, gradients and optimizer state; bf16: fp32, with "
               "matrix products of factors in bf16.",
               [](auto& c) -> auto& { return c.precision; }),
    };
}

std::vector<Key> step_keys() {
    using data::Format;
    return {
        choice("data.format", mathematics,
               Choices<Format>{{"bytes", Format::bytes}, {"tokens", Format::tokens}},
               "What data files hold: text, a token per byte, or 16-bit tokens.",
               [](auto& c) -> auto& { return c.data.format; }),
        real("data.validation_share", mathematics, below_one,
             "Share of the samples, at the end of data.train, that is kept for validation; becomes "
             "0 when data.validation is given.",
             [](auto& c) -> auto& { return c.data.validation_share; }),
        make_seed_key(),
        whole("microbatch_size", mathematics, {1, count_max}, "Samples in a microbatch.",
              [](auto& c) -> auto& { return c.microbatch_size; }),
        whole("microbatches", mathematics, {1, count_max}, "Microbatches in a step.",
              [](auto& c) -> auto& { return c.microbatches; }),
        whole(
            "lanes", mathematics, {1, count_max},
            "Groups of microbatches whose gradients are summed first: the most pipelines that can "
            "share a step; a divisor of microbatches.",
            [](auto& c) -> auto& { return c.lanes; }),
        whole("chunk_elements", mathematics, {1, std::int64_t{1} << 34},
              "Elements in a chunk, the piece of a tensor that is owned, moved and summed as one.",
              [](auto& c) -> auto& { return c.chunk_elements; }),
    };
}

std::vector<Key> optimizer_keys() {
    return {
        real("optimizer.learning_rate", mathematics, positive,
             "Learning rate at its peak, after the warm-up.",
             [](auto& c) -> auto& { return c.optimizer.learning_rate; }),
        real("optimizer.final_learning_rate", mathematics, not_negative,
             "Learning rate after the decay; at most the peak.",
             [](auto& c) -> auto& { return c.optimizer.final_learning_rate; }),
        whole("optimizer.warmup_steps", mathematics, {0, count_max},
              "Steps in which the learning rate rises to its peak.",
              [](auto& c) -> auto& { return c.optimizer.warmup_steps; }),
        whole(
            "optimizer.decay_steps", mathematics, {0, count_max},
            "Step at which the cosine decay has reached the final rate; give it to keep the "
            "weights the same for another number of steps.",
            [](auto& c) -> auto& { return c.optimizer.decay_steps; }, "steps"),
        real("optimizer.beta1", mathematics, below_one,
             "Share of AdamW's first moment that a step keeps.",
             [](auto& c) -> auto& { return c.optimizer.beta1; }),
        real("optimizer.beta2", mathematics, below_one,
             "Share of AdamW's second moment that a step keeps.",
             [](auto& c) -> auto& { return c.optimizer.beta2; }),
        real("optimizer.epsilon", mathematics, positive, "AdamW's guard against division by zero.",
             [](auto& c) -> auto& { return c.optimizer.epsilon; }),
        real("optimizer.weight_decay", mathematics, not_negative,
             "Decoupled decay of tensors of two or more dimensions.",
             [](auto& c) -> auto& { return c.optimizer.weight_decay; }),
        real("optimizer.clip_norm", mathematics, not_negative,
             "Largest norm of the whole gradient; 0 leaves it as it is.",
             [](auto& c) -> auto& { return c.optimizer.clip_norm; }),
    };
}

std::vector<Key> make_keys() {
    std::vector<Key> table;
    for (const auto& group :
         {model_keys(), step_keys(), optimizer_keys(), make_layout_keys(), make_shape_keys()}) {
        table.insert(table.end(), group.begin(), group.end());
    }
    const RunConfig defaults;
    for (Key& key : table) {
        if (key.default_text.empty()) key.default_text = key.print(defaults);
    }
    return table;
}

}  // namespace

const std::vector<Key>& keys() {
    static const std::vector<Key> table = make_keys();
    return table;
}

const Key* find_key(std::string_view name) {
    const auto found = std::find_if(keys().begin(), keys().end(),
                                    [name](const Key& key) { return key.name == name; });
    return found == keys().end() ? nullptr : &*found;
}

std::string variable_of(std::string_view key) {
    std::string name{variable_prefix};
    for (const char c : key) {
        const bool lower = c >= 'a' && c <= 'z';  // std::toupper asks the locale
        name += c == '.' ? '_' : lower ? static_cast<char>(c - 'a' + 'A') : c;
    }
    return name;
}

std::int64_t parameters(const model::GptSize& size) {
    const std::int64_t channels = size.channels;
    const std::int64_t embeddings = (std::int64_t{size.vocabulary} + size.context) * channels;
    const std::int64_t block = 12 * channels * channels + 13 * channels;
    return embeddings + size.blocks * block + 2 * channels;
}

}  // namespace rhizome::cli
