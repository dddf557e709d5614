#include "cli/generate_options.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "cli/values.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

namespace rhizome::cli {
namespace {

constexpr std::int64_t count_max = std::numeric_limits<std::int32_t>::max();
constexpr RealRange temperature_range{"in [0, 1e6]", [](double x) { return x >= 0 && x <= 1e6; }};

MaybeProblem read_count(const std::string& text, WholeRange range, std::int32_t& count) {
    std::int64_t value = 0;
    MaybeProblem problem = read_whole(text, range, value);
    if (!problem) count = static_cast<std::int32_t>(value);
    return problem;
}

MaybeProblem read_ids(std::string_view text, std::optional<std::vector<std::int32_t>>& ids) {
    std::vector<std::int32_t> read;
    while (true) {
        const std::size_t end = std::min(text.find(','), text.size());
        std::int32_t id = 0;
        if (auto problem = read_count(std::string{text.substr(0, end)}, {0, count_max}, id)) {
            problem->hint = "write tokens as 1,2,3";
            return problem;
        }
        read.push_back(id);
        if (end == text.size()) break;
        text.remove_prefix(end + 1);
    }
    ids = std::move(read);
    return std::nullopt;
}

struct Flag {
    std::string_view name;
    MaybeProblem (*set)(GenerateOptions&, const std::string& text);
};

constexpr std::array flags{
    Flag{"--prompt",
         [](GenerateOptions& o, const std::string& text) {
             o.prompt = text;
             return MaybeProblem{};
         }},
    Flag{"--prompt-ids",
         [](GenerateOptions& o, const std::string& text) { return read_ids(text, o.prompt_ids); }},
    Flag{"--tokens",
         [](GenerateOptions& o, const std::string& text) {
             return read_count(text, {1, 1'000'000}, o.tokens);
         }},
    Flag{"--temperature",
         [](GenerateOptions& o, const std::string& text) {
             return read_real(text, temperature_range, o.rule.temperature);
         }},
    Flag{"--top-k",
         [](GenerateOptions& o, const std::string& text) {
             return read_count(text, {0, count_max}, o.rule.top_k);
         }},
    Flag{"--seed",
         [](GenerateOptions& o, const std::string& text) { return read_unsigned(text, o.seed); }},
    Flag{"--heads",
         [](GenerateOptions& o, const std::string& text) {
             return read_count(text, {1, 65535}, o.heads.emplace());
         }},
    Flag{"--threads",
         [](GenerateOptions& o, const std::string& text) {
             return read_count(text, {1, 1024}, o.threads);
         }},
};

const Flag& flag_of(const std::string& name) {
    const auto found = std::find_if(flags.begin(), flags.end(),
                                    [&](const Flag& flag) { return flag.name == name; });
    if (found != flags.end()) return *found;
    std::vector<std::string> names;
    for (const Flag& flag : flags) names.emplace_back(flag.name);
    const auto meant = nearest(name, names);
    throw ConfigError{"`" + shown(name) + "` (no such flag), " +
                      (meant ? "did you mean " + *meant + "?"
                             : std::string{"`rhizome generate --help` lists all"})};
}

/// A flag's value that stands in the next word, where another flag may stand by mistake.
const std::string& next_word(const Arguments& arguments, std::size_t i, const std::string& name) {
    if (i == arguments.size()) {
        throw ConfigError{name + " (has no value), write " + name + "=VALUE"};
    }
    if (arguments[i].starts_with("--")) {
        throw ConfigError{name + " (no value: `" + shown(arguments[i]) +
                          "` looks like a flag), write " + name + "=VALUE"};
    }
    return arguments[i];
}

void set_flag(const std::string& name, const std::string& value, GenerateOptions& options,
              std::vector<std::string>& given) {
    if (std::find(given.begin(), given.end(), name) != given.end()) {
        throw ConfigError{name + " (given before), keep one"};
    }
    given.push_back(name);
    if (const auto problem = flag_of(name).set(options, value)) {
        throw ConfigError{name + "=" + shown(value) + " (" + problem->reason + "), " +
                          problem->hint};
    }
}

}  // namespace

GenerateOptions parse_generate_options(const Arguments& arguments) {
    GenerateOptions options;
    std::vector<std::string> given;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const std::string& word = arguments[i];
        if (word.starts_with('-')) {
            const std::size_t equals = std::min(word.find('='), word.size());
            const std::string name = word.substr(0, equals);
            static_cast<void>(flag_of(name));  // that there is none comes before what it lacks
            set_flag(
                name,
                equals < word.size() ? word.substr(equals + 1) : next_word(arguments, ++i, name),
                options, given);
        } else if (word.empty() || !options.from.empty()) {
            throw ConfigError{"`" + shown(word) +
                              "` (one state, run or file is wanted), name just one"};
        } else {
            options.from = word;
        }
    }
    if (options.from.empty()) {
        throw ConfigError{
            "rhizome generate (from which weights?), name a state, a run's folder or a file: "
            "rhizome generate FROM"};
    }
    if (options.prompt_ids && std::find(given.begin(), given.end(), "--prompt") != given.end()) {
        throw ConfigError{"--prompt-ids (beside --prompt), keep one"};
    }
    return options;
}

std::string generate_help_text() {
    return R"(usage: rhizome generate FROM [--prompt TEXT | --prompt-ids N,N,...] [--tokens N]
                        [--temperature X] [--top-k K] [--seed S] [--threads N] [--heads N]

Writes what follows a text, token by token, as a trained GPT goes on with it. The network sees as
many of the last tokens as its context has.

  FROM               a state (runs/first/states/step-00000500), a run's folder (its newest state;
                     damaged ones are named and passed over), or a *.safetensors file with a GPT-2
                     by Hugging Face's names
  --prompt TEXT      what the text begins with, for networks whose tokens are bytes; without it, or
                     if it is empty, one new line, because something has to come first. It is not
                     written again
  --prompt-ids N,... the same as numbers of tokens, for any network; then numbers are written
  --tokens N         to be written, 1..1000000; default: 200
  --temperature X    in [0, 1e6]; below 1 makes likely tokens likelier, and 0 certain;
                     default: 1
  --top-k K          only the K likeliest tokens are candidates; 0: all; default: 0
  --seed S           of the random choices, 0..18446744073709551615; default: 1
  --threads N        compute threads, 1..1024; default: 1
  --heads N          attention heads, for a file that does not say how many

The same weights, prompt, seed, temperature and top-k give the same text on the same kind of machine
with any number of threads. A text of N tokens begins like one of more, and goes on the same way if
it becomes the prompt in its turn.

Bytes are written as they are, also where they are no UTF-8, and a new line at the end. A closed
output ends it quietly.

examples:
  rhizome generate runs/first --prompt "And God said" --tokens 500 --temperature 0.8
  rhizome generate gpt2.safetensors --heads 12 --prompt-ids 464,3616,286 --top-k 40
)";
}

}  // namespace rhizome::cli
