#include "cli/keys.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "engine/fault_plan.hpp"

namespace rhizome::cli {
namespace {

constexpr auto mathematics = KeyKind::mathematics;
constexpr auto layout = KeyKind::layout;
constexpr std::int64_t count_max = std::numeric_limits<std::int32_t>::max();

constexpr RealRange bound_range{">= 0.01", [](double x) { return x >= 0.01; }};
constexpr RealRange rate_range{">= 1", [](double x) { return x >= 1; }};
constexpr RealRange latency_range{"in [0, 1000]", [](double x) { return x >= 0 && x <= 1000; }};

// `field` finds the place in a configuration: [](auto& c) -> auto& { return c.model.blocks; }

template <class Field>
Key whole(std::string name, KeyKind kind, WholeRange range, std::string help, Field field,
          std::string default_text = "") {
    const auto set = [range, field](RunConfig& config, std::string_view text) {
        std::int64_t value{};
        MaybeProblem problem = read_whole(text, range, value);
        auto& target = field(config);
        if (!problem) target = static_cast<std::remove_reference_t<decltype(target)>>(value);
        return problem;
    };
    const auto print = [field](const RunConfig& config) { return std::to_string(field(config)); };
    return {std::move(name),        kind, to_text(range), std::move(help), set, print,
            std::move(default_text)};
}

template <class Field>
Key real(std::string name, KeyKind kind, RealRange range, std::string help, Field field) {
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
Key choice(std::string name, KeyKind kind, const Choices<Value>& choices, std::string help,
           Field field) {
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
Key path(std::string name, std::string help, Field field, std::string default_text) {
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

MaybeProblem read_steps(std::string_view text, std::optional<StepRange>& value) {
    Problem wrong{"not a range of steps", "write FIRST-LAST, as 10-13, or none"};
    if (text == "none") {
        value.reset();
        return std::nullopt;
    }
    const std::size_t dash = text.find('-');
    std::int64_t first = 0;
    std::int64_t last = 0;
    if (dash == std::string_view::npos || read_whole(text.substr(0, dash), {0, count_max}, first) ||
        read_whole(text.substr(dash + 1), {0, count_max}, last)) {
        return wrong;
    }
    if (last < first) return Problem{"ends before it begins", "turn it round"};
    value = {static_cast<std::int32_t>(first), static_cast<std::int32_t>(last)};
    return std::nullopt;
}

Key make_timeline_key() {
    return {
        "timeline",
        layout,
        "none|FIRST-LAST",
        "Steps, counted from 0, of which the run's folder gets a timeline of every worker, for "
        "trace viewers and `rhizome-plan timeline`.",
        [](RunConfig& config, std::string_view text) { return read_steps(text, config.timeline); },
        [](const RunConfig& config) {
            if (!config.timeline) return std::string{"none"};
            return std::to_string(config.timeline->first) + "-" +
                   std::to_string(config.timeline->last);
        },
        ""};
}

Key make_faults_key() {
    return {"faults",
            layout,
            "FAULT,...",
            "What shall go wrong, to see the run survive it: kill@2/12/F#3 kills worker 2 in step "
            "12 before its fourth forward, soak@7/0.001 kills at random; docs/FAULTS.md has all.",
            [](RunConfig& config, std::string_view text) {
                const engine::ParsedFaults parsed = engine::parse_faults(text);
                if (!parsed.problem.empty()) {
                    return MaybeProblem{Problem{parsed.problem, "write it as kill@2/12/F#3"}};
                }
                config.faults = text;
                return MaybeProblem{};
            },
            [](const RunConfig& config) { return config.faults; },
            "none"};
}

std::vector<Key> layout_keys() {
    return {
        path(
            "data.train",
            "Training data: a file, or a pattern such as 'shards/*.bin'; relative to the current "
            "folder.",
            [](auto& c) -> auto& { return c.data.train; }, "required"),
        path(
            "data.validation",
            "Validation data, likewise; without it, a share of the training data.",
            [](auto& c) -> auto& { return c.data.validation; }, "none"),
        whole("steps", layout, {1, count_max}, "Optimizer steps until the run is done.",
              [](auto& c) -> auto& { return c.steps; }),
        choice(
            "device", layout,
            Choices<DeviceKind>{{"cpu", DeviceKind::cpu},
                                {"reference", DeviceKind::reference},
                                {"paced", DeviceKind::paced}},
            "What computes: cpu is as fast as the CPU can; reference is plain loops, the judge of "
            "all others; paced computes what cpu does and takes the time that costs or the pace.* "
            "keys describe, to rehearse a run.",
            [](auto& c) -> auto& { return c.device; }),
        whole("threads", layout, {1, 1024},
              "Compute threads; with device=cpu their number counts in the last bits.",
              [](auto& c) -> auto& { return c.threads; }),
        choice("recompute", layout,
               Choices<engine::Recompute>{{"none", engine::Recompute::none},
                                          {"all", engine::Recompute::all}},
               "Layers whose activations are computed again for the backward pass instead of kept: "
               "less memory, more time.",
               [](auto& c) -> auto& { return c.recompute; }),
        whole("evaluate.interval", layout, {0, count_max},
              "Steps between two validations; 0 validates only at the end.",
              [](auto& c) -> auto& { return c.evaluate_interval; }),
        whole("evaluate.microbatches", layout, {1, count_max},
              "Microbatches in a validation, at most.",
              [](auto& c) -> auto& { return c.evaluate_microbatches; }),
        whole("save.interval", layout, {0, count_max},
              "Steps between two states that are saved in the run's folder, in the background; 0 "
              "saves only at the end.",
              [](auto& c) -> auto& { return c.save_interval; }),
        whole("save.keep", layout, {1, count_max}, "Newest states that are kept.",
              [](auto& c) -> auto& { return c.save_keep; }),
        whole("save.keep_every", layout, {0, count_max},
              "States that are kept besides: those whose number of steps is a multiple; 0: none.",
              [](auto& c) -> auto& { return c.save_keep_every; }),
        path(
            "from",
            "State to begin from, or a run for its newest whole one, with the same mathematics in "
            "whatever layout; once the run's folder has states of its own, those count.",
            [](auto& c) -> auto& { return c.from; }, "none"),
        whole("log.interval", layout, {1, count_max}, "Steps between two lines of progress.",
              [](auto& c) -> auto& { return c.log_interval; }),
        make_timeline_key(),
        make_faults_key(),
    };
}

Key make_pipelines_key() {
    return {
        "pipelines",
        layout,
        "N,N,...",
        "Workers of each pipeline, which may differ: 3,2 is one of three and one of two, 4x3 "
        "four of three. Workers left over are spares.",
        [](RunConfig& config, std::string_view text) { return read_depths(text, config.depths); },
        [](const RunConfig& config) { return depths_text(config.depths); },
        ""};
}

Key make_cut_key() {
    return {"cut",
            layout,
            "RANGES",
            "Layers of the stages of every pipeline by hand, as 0-3,4,5-8; without it, by costs.",
            [](RunConfig& config, std::string_view text) {
                if (text.find_first_not_of("0123456789,-") != std::string_view::npos) {
                    return MaybeProblem{Problem{"not ranges of layers", "write 0-3,4,5-8"}};
                }
                config.cut = text;
                return MaybeProblem{};
            },
            [](const RunConfig& config) { return config.cut; },
            "none"};
}

Key make_owners_key() {
    return {"owners",
            layout,
            "N|all",
            "Workers that keep each chunk's optimizer state up to date: so many may be lost, less "
            "one, and nothing is.",
            [](RunConfig& config, std::string_view text) {
                if (text == "all") {
                    config.owners = 0;
                    return MaybeProblem{};
                }
                std::int64_t owners = 0;
                MaybeProblem problem = read_whole(text, {1, 4096}, owners);
                if (!problem) config.owners = static_cast<std::int32_t>(owners);
                return problem;
            },
            [](const RunConfig& config) {
                return config.owners == 0 ? std::string{"all"} : std::to_string(config.owners);
            },
            ""};
}

std::vector<Key> shape_keys() {
    Choices<schedule::Style> styles;
    for (const schedule::Style style : schedule::all_styles()) {
        if (style == schedule::Style::evaluation) continue;
        styles.emplace_back(schedule::name_of(style), style);
    }
    return {
        make_pipelines_key(),
        whole("parts", layout, {1, 64}, "Stages per worker; more than one with style=interleaved.",
              [](auto& c) -> auto& { return c.parts; }),
        make_cut_key(),
        path(
            "costs",
            "What the layers cost, as `rhizome profile` measured it, to cut them by and for "
            "device=paced; without it, estimates from pace.flops_per_s.",
            [](auto& c) -> auto& { return c.costs; }, "none"),
        choice("style", layout, styles,
               "Order of a worker's computations; `rhizome-plan schedule` draws them.",
               [](auto& c) -> auto& { return c.style; }),
        make_owners_key(),
        real("bounds.stopped_s", layout, bound_range,
             "Seconds after which a rank that was stopped (as by SIGSTOP) is killed.",
             [](auto& c) -> auto& { return c.bounds.stopped_s; }),
        real(
            "bounds.stuck_s", layout, positive,
            "Seconds without a sign of life after which a rank is killed; longer than a microbatch "
            "takes through a layer, and than making the initial weights.",
            [](auto& c) -> auto& { return c.bounds.stuck_s; }),
        real("bounds.wait_s", layout, bound_range,
             "Seconds after which a peer that does not answer is taken for lost.",
             [](auto& c) -> auto& { return c.bounds.wait_s; }),
        real("bounds.repair_s", layout, bound_range,
             "Seconds from a loss to the end of its repair; past them a worker leaves.",
             [](auto& c) -> auto& { return c.bounds.repair_s; }),
        real("pace.flops_per_s", layout, rate_range, "Of the accelerator that device=paced plays.",
             [](auto& c) -> auto& { return c.pace.flops_per_s; }),
        real("pace.link_bytes_per_s", layout, rate_range, "Of each link that device=paced plays.",
             [](auto& c) -> auto& { return c.pace.link_bytes_per_s; }),
        real("pace.link_latency_s", layout, latency_range, "Of each link that device=paced plays.",
             [](auto& c) -> auto& { return c.pace.link_latency_s; }),
    };
}

std::vector<Key> make_keys() {
    std::vector<Key> table;
    for (const auto& group :
         {model_keys(), step_keys(), optimizer_keys(), layout_keys(), shape_keys()}) {
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
