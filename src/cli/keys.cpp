#include "cli/keys.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"

namespace rhizome::cli {
namespace {

constexpr auto mathematics = KeyKind::mathematics;
constexpr auto layout = KeyKind::layout;
constexpr std::int64_t count_max = std::numeric_limits<std::int32_t>::max();

// `field` finds the place in a configuration: [](auto& c) -> auto& { return c.model.blocks; }

template <class Field>
Key whole(std::string name, KeyKind kind, WholeRange range, Field field, std::string help) {
    const auto set = [range, field](RunConfig& config, std::string_view text) {
        std::int64_t value{};
        MaybeProblem problem = read_whole(text, range, value);
        auto& target = field(config);
        if (!problem) target = static_cast<std::remove_reference_t<decltype(target)>>(value);
        return problem;
    };
    const auto print = [field](const RunConfig& config) { return std::to_string(field(config)); };
    return {std::move(name), kind, to_text(range), std::move(help), set, print, ""};
}

template <class Field>
Key real(std::string name, KeyKind kind, RealRange range, Field field, std::string help) {
    const auto set = [range, field](RunConfig& config, std::string_view text) {
        return read_real(text, range, field(config));
    };
    const auto print = [field](const RunConfig& config) { return rhizome::to_text(field(config)); };
    return {std::move(name), kind, "number " + std::string{range.text}, std::move(help), set,
            print,           ""};
}

template <class Value>
using Choices = std::vector<std::pair<std::string, Value>>;

template <class Value, class Field>
Key choice(std::string name, KeyKind kind, Choices<Value> choices, Field field, std::string help) {
    std::string takes;
    for (const auto& [word, value] : choices) takes += (takes.empty() ? "" : "|") + word;
    const auto set = [choices, takes, field](RunConfig& config, std::string_view text) {
        for (const auto& [word, value] : choices) {
            if (word == text) {
                field(config) = value;
                return MaybeProblem{};
            }
        }
        return MaybeProblem{Problem{"no such choice", "take " + takes}};
    };
    const auto print = [choices, field](const RunConfig& config) {
        const auto found = std::find_if(choices.begin(), choices.end(), [&](const auto& entry) {
            return entry.second == field(config);
        });
        ENSURE(found != choices.end());
        return found->first;
    };
    return {std::move(name), kind, takes, std::move(help), set, print, ""};
}

template <class Field>
Key path(std::string name, Field field, std::string help, std::string default_text) {
    const auto set = [field](RunConfig& config, std::string_view text) {
        return read_path(text, field(config));
    };
    const auto print = [field](const RunConfig& config) { return std::string{field(config)}; };
    return {std::move(name), layout, "PATH", std::move(help), set, print, std::move(default_text)};
}

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

Key size_key() {
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

Key seed_key() {
    return {
        "seed",
        mathematics,
        "0.." + std::to_string(std::numeric_limits<std::uint64_t>::max()),
        "Fixes initial weights, dropout and the order of the samples.",
        [](RunConfig& config, std::string_view text) { return read_unsigned(text, config.seed); },
        [](const RunConfig& config) { return std::to_string(config.seed); },
        ""};
}

void add_model(std::vector<Key>& table) {
    using model::Tying;
    table.push_back(size_key());
    // The sampler's random numbers have layer number 65535; those below are embedding, blocks,
    // final norm and head.
    table.push_back(whole(
        "model.blocks", mathematics, {1, 65532}, [](auto& c) -> auto& { return c.model.blocks; },
        "Transformer blocks."));
    // The largest matrix has 4 C C elements, and 2^34 can be drawn.
    table.push_back(whole(
        "model.channels", mathematics, {1, 65535},
        [](auto& c) -> auto& { return c.model.channels; }, "Width of the network."));
    table.push_back(whole(
        "model.heads", mathematics, {1, 65535}, [](auto& c) -> auto& { return c.model.heads; },
        "Attention heads; a divisor of model.channels."));
    table.push_back(whole(
        "model.context", mathematics, {1, 1 << 24},
        [](auto& c) -> auto& { return c.model.context; }, "Tokens in a sample."));
    table.push_back(whole(
        "model.vocabulary", mathematics, {1, count_max},
        [](auto& c) -> auto& { return c.model.vocabulary; },
        "Different tokens: at least 256 for bytes, at most 65536 for tokens."));
    table.push_back(choice(
        "model.tied", mathematics, Choices<Tying>{{"true", Tying::tied}, {"false", Tying::untied}},
        [](auto& c) -> auto& { return c.model.tying; },
        "Whether the head is the token embedding, used again."));
    table.push_back(real(
        "model.dropout", mathematics, below_one, [](auto& c) -> auto& { return c.model.dropout; },
        "Probability with which an activation is dropped in training."));
    table.push_back(choice(
        "precision", mathematics, Choices<DType>{{"fp32", DType::f32}, {"fp64", DType::f64}},
        [](auto& c) -> auto& { return c.precision; },
        "Type of weights, activations, gradients and optimizer state."));
}

void add_step(std::vector<Key>& table) {
    using data::Format;
    table.push_back(choice(
        "data.format", mathematics,
        Choices<Format>{{"bytes", Format::bytes}, {"tokens", Format::tokens}},
        [](auto& c) -> auto& { return c.data.format; },
        "What data files hold: text, a token per byte, or 16-bit tokens."));
    table.push_back(real(
        "data.validation_share", mathematics, below_one,
        [](auto& c) -> auto& { return c.data.validation_share; },
        "Share of the samples, at the end of data.train, that is kept for "
        "validation; becomes 0 when data.validation is given."));
    table.push_back(seed_key());
    table.push_back(whole(
        "microbatch_size", mathematics, {1, count_max},
        [](auto& c) -> auto& { return c.microbatch_size; }, "Samples in a microbatch."));
    table.push_back(whole(
        "microbatches", mathematics, {1, count_max},
        [](auto& c) -> auto& { return c.microbatches; }, "Microbatches in a step."));
    table.push_back(whole(
        "lanes", mathematics, {1, count_max}, [](auto& c) -> auto& { return c.lanes; },
        "Groups of microbatches whose gradients are summed first: the most "
        "pipelines that can share a step; a divisor of microbatches."));
    table.push_back(whole(
        "chunk_elements", mathematics, {1, std::int64_t{1} << 34},
        [](auto& c) -> auto& { return c.chunk_elements; },
        "Elements in a chunk, the piece of a tensor that is owned, moved and "
        "summed as one."));
}

void add_optimizer(std::vector<Key>& table) {
    table.push_back(real(
        "optimizer.learning_rate", mathematics, positive,
        [](auto& c) -> auto& { return c.optimizer.learning_rate; },
        "Learning rate at its peak, after the warm-up."));
    table.push_back(real(
        "optimizer.final_learning_rate", mathematics, not_negative,
        [](auto& c) -> auto& { return c.optimizer.final_learning_rate; },
        "Learning rate after the decay; at most the peak."));
    table.push_back(whole(
        "optimizer.warmup_steps", mathematics, {0, count_max},
        [](auto& c) -> auto& { return c.optimizer.warmup_steps; },
        "Steps in which the learning rate rises to its peak."));
    table.push_back(whole(
        "optimizer.decay_steps", mathematics, {0, count_max},
        [](auto& c) -> auto& { return c.optimizer.decay_steps; },
        "Step at which the cosine decay has reached the final rate; give it to "
        "keep the weights the same for another number of steps."));
    table.back().default_text = "steps";
    table.push_back(real(
        "optimizer.beta1", mathematics, below_one,
        [](auto& c) -> auto& { return c.optimizer.beta1; },
        "Share of AdamW's first moment that a step keeps."));
    table.push_back(real(
        "optimizer.beta2", mathematics, below_one,
        [](auto& c) -> auto& { return c.optimizer.beta2; },
        "Share of AdamW's second moment that a step keeps."));
    table.push_back(real(
        "optimizer.epsilon", mathematics, positive,
        [](auto& c) -> auto& { return c.optimizer.epsilon; },
        "AdamW's guard against division by zero."));
    table.push_back(real(
        "optimizer.weight_decay", mathematics, not_negative,
        [](auto& c) -> auto& { return c.optimizer.weight_decay; },
        "Decoupled decay of tensors of two or more dimensions."));
    table.push_back(real(
        "optimizer.clip_norm", mathematics, not_negative,
        [](auto& c) -> auto& { return c.optimizer.clip_norm; },
        "Largest norm of the whole gradient; 0 leaves it as it is."));
}

void add_layout(std::vector<Key>& table) {
    table.push_back(path(
        "data.train", [](auto& c) -> auto& { return c.data.train; },
        "Training data: a file, or a pattern such as 'shards/*.bin'; relative to "
        "the current folder.",
        "required"));
    table.push_back(path(
        "data.validation", [](auto& c) -> auto& { return c.data.validation; },
        "Validation data, likewise; without it, a share of the training data.", "none"));
    table.push_back(whole(
        "steps", layout, {1, count_max}, [](auto& c) -> auto& { return c.steps; },
        "Optimizer steps until the run is done."));
    table.push_back(choice(
        "device", layout, Choices<DeviceKind>{{"reference", DeviceKind::reference}},
        [](auto& c) -> auto& { return c.device; },
        "What computes: reference is plain loops on the CPU."));
    table.push_back(whole(
        "threads", layout, {1, 1024}, [](auto& c) -> auto& { return c.threads; },
        "Compute threads."));
    table.push_back(choice(
        "recompute", layout, Choices<Recompute>{{"none", Recompute::none}, {"all", Recompute::all}},
        [](auto& c) -> auto& { return c.recompute; },
        "Layers whose activations are computed again for the backward pass "
        "instead of kept: less memory, more time."));
    table.push_back(whole(
        "evaluate.interval", layout, {0, count_max},
        [](auto& c) -> auto& { return c.evaluate_interval; },
        "Steps between two validations; 0 validates only at the end."));
    table.push_back(whole(
        "evaluate.microbatches", layout, {1, count_max},
        [](auto& c) -> auto& { return c.evaluate_microbatches; },
        "Microbatches in a validation, at most."));
    table.push_back(whole(
        "log.interval", layout, {1, count_max}, [](auto& c) -> auto& { return c.log_interval; },
        "Steps between two lines of progress."));
}

std::vector<Key> make_keys() {
    std::vector<Key> table;
    add_model(table);
    add_step(table);
    add_optimizer(table);
    add_layout(table);
    for (Key& key : table) {
        if (key.default_text.empty()) key.default_text = key.print(RunConfig{});
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
