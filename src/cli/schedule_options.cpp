#include "cli/schedule_options.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>

#include "cli/values.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

namespace rhizome::cli {
namespace {

constexpr RealRange at_least_one{">= 1", [](double x) { return x >= 1; }};

struct Flag {
    std::string name;
    std::string takes;
    std::string help;
    std::function<MaybeProblem(ScheduleOptions&, std::string_view)> set;
};

template <class Field>
Flag whole(std::string name, WholeRange range, std::string help, Field field) {
    return {std::move(name), to_text(range), std::move(help),
            [range, field](ScheduleOptions& options, std::string_view text) {
                std::int64_t value = 0;
                if (auto problem = read_whole(text, range, value)) return problem;
                field(options) = static_cast<std::int32_t>(value);
                return MaybeProblem{};
            }};
}

template <class Field>
Flag real(std::string name, RealRange range, std::string help, Field field) {
    return {std::move(name), std::string{range.text}, std::move(help),
            [range, field](ScheduleOptions& options, std::string_view text) {
                return read_real(text, range, field(options));
            }};
}

template <class Field>
Flag path(std::string name, std::string help, Field field) {
    return {std::move(name), "PATH", std::move(help),
            [field](ScheduleOptions& options, std::string_view text) {
                return read_path(text, field(options));
            }};
}

MaybeProblem set_style(ScheduleOptions& options, std::string_view text) {
    if (const auto style = schedule::style_of(text)) {
        options.style = *style;
        return std::nullopt;
    }
    std::string known;
    for (const schedule::Style style : schedule::all_styles()) {
        known += (known.empty() ? "" : "|") + std::string{schedule::name_of(style)};
    }
    return Problem{"no such style", "take " + known};
}

MaybeProblem set_size(ScheduleOptions& options, std::string_view text) {
    for (const model::GptSize& size : model::gpt_sizes) {
        if (size.name == text) {
            options.model_size = text;
            return std::nullopt;
        }
    }
    return Problem{"no such size", "`rhizome train --help` lists them"};
}

MaybeProblem set_recompute(ScheduleOptions& options, std::string_view text) {
    if (text != "none" && text != "all") return Problem{"no such choice", "take none|all"};
    options.recompute = text == "all";
    return std::nullopt;
}

MaybeProblem set_show(ScheduleOptions& options, std::string_view text) {
    if (text == "summary")
        options.show = Show::summary;
    else if (text == "drawing")
        options.show = Show::drawing;
    else if (text == "text")
        options.show = Show::text;
    else
        return Problem{"no such choice", "take summary|drawing|text"};
    return std::nullopt;
}

const std::vector<Flag>& flags() {
    constexpr std::int64_t many = std::numeric_limits<std::int32_t>::max();
    static const std::vector<Flag> all{
        path("file", "A schedule in text form, to check and to time instead of generating one.",
             [](auto& o) -> auto& { return o.file; }),
        {"style", "NAME", "gpipe, 1f1b, interleaved, zb-h1, zb-h2, evaluation; default: 1f1b.",
         set_style},
        {"pipelines", "N,N,...",
         "Workers of each pipeline, which may differ; 2x4 is 4,4; default: 4.",
         [](ScheduleOptions& options, std::string_view text) {
             return read_depths(text, options.depths);
         }},
        whole("parts", {1, 64}, "Stages per worker, for interleaved; default: 1, there 2.",
              [](auto& o) -> auto& { return o.parts; }),
        whole("spares", {0, 4096}, "Further workers, in no pipeline; default: 0.",
              [](auto& o) -> auto& { return o.spares; }),
        whole("microbatches", {1, many}, "Per step; default: 8.",
              [](auto& o) -> auto& { return o.microbatches; }),
        whole("lanes", {1, many}, "Divides the microbatches; default: the fewest that do.",
              [](auto& o) -> auto& { return o.lanes; }),
        whole("layers", {1, 4096}, "Equal layers, a second each way; default: one per stage.",
              [](auto& o) -> auto& { return o.layers; }),
        {"model.size", "NAME", "A network by name, with estimated costs, instead of equal layers.",
         set_size},
        whole("microbatch_size", {1, many}, "Samples per microbatch, for its costs; default: 1.",
              [](auto& o) -> auto& { return o.microbatch_size; }),
        path("costs", "Costs that `rhizome profile` measured; default: equal or estimated.",
             [](auto& o) -> auto& { return o.costs; }),
        {"cut", "RANGES", "Layers of the stages by hand, as 0-3,4,5-8; default: by costs.",
         [](ScheduleOptions& options, std::string_view text) {
             options.cut = text;
             return MaybeProblem{};
         }},
        whole("owners", {1, 4096}, "Copies of each chunk's optimizer state; default: 2.",
              [](auto& o) -> auto& { return o.owners; }),
        {"recompute", "none|all", "Activations again in backward; default: none.", set_recompute},
        real("flops_per_s", at_least_one, "Speed of a worker, for model.size; default: 1e14.",
             [](auto& o) -> auto& { return o.flops_per_s; }),
        real("link_bytes_per_s", at_least_one,
             "Speed of a link, for model.size or costs; default: 2.5e10.",
             [](auto& o) -> auto& { return o.link_bytes_per_s; }),
        real("link_latency_s", not_negative,
             "Of a message, for model.size or costs; default: 1e-5.",
             [](auto& o) -> auto& { return o.link_latency_s; }),
        {"show", "summary|drawing|text",
         "A drawing and the summary, or the text that --file reads; default: drawing.", set_show},
        path("svg", "A picture is written there.", [](auto& o) -> auto& { return o.svg; })};
    return all;
}

/// A flag that would do nothing beside another is a misunderstanding.
void refuse_idle_flags(const std::set<std::string>& given) {
    const auto refuse = [](const std::string& flag, const std::string& reason) {
        throw ConfigError{"--" + flag + " (" + reason + "), leave one of them out"};
    };
    for (const std::string flag : {"style", "pipelines", "parts", "spares", "microbatches", "lanes",
                                   "layers", "cut", "recompute"}) {
        if (given.contains("file") && given.contains(flag)) {
            refuse(flag, "the schedule is read with --file and has all that");
        }
    }
    const bool network = given.contains("model.size");
    if (network && given.contains("layers")) refuse("layers", "--model.size says how many");
    const bool measured = given.contains("costs");
    if (measured && given.contains("layers")) refuse("layers", "--costs says how many");
    if (measured && given.contains("flops_per_s")) refuse("flops_per_s", "--costs are measured");
    for (const std::string flag : {"microbatch_size", "flops_per_s"}) {
        if (!network && given.contains(flag)) {
            throw ConfigError{"--" + flag + " (means nothing without --model.size), give both"};
        }
    }
    for (const std::string flag : {"link_bytes_per_s", "link_latency_s"}) {
        if (!network && !measured && given.contains(flag)) {
            throw ConfigError{"--" + flag +
                              " (means nothing without --model.size or --costs), give both"};
        }
    }
}

}  // namespace

ScheduleOptions parse_schedule_options(const Arguments& arguments) {
    Flags known{.names = {}, .help = "rhizome-plan schedule --help"};
    for (const Flag& flag : flags()) known.names.push_back(flag.name);
    ScheduleOptions options;
    std::set<std::string> given;
    for (const Setting& setting : flag_settings(arguments, known)) {
        const auto flag = std::find_if(flags().begin(), flags().end(),
                                       [&](const Flag& each) { return each.name == setting.key; });
        ENSURE(flag != flags().end());
        given.insert(setting.key);
        if (const auto problem = flag->set(options, setting.value)) {
            throw ConfigError{setting.where + "=" + shown(setting.value) + " (" + problem->reason +
                              "), " + problem->hint};
        }
    }
    refuse_idle_flags(given);
    if (options.style == schedule::Style::interleaved && !given.contains("parts")) {
        options.parts = 2;
    }
    if (options.recompute && options.style == schedule::Style::evaluation) {
        throw ConfigError{"--recompute=all (an evaluation has no backward), leave it out"};
    }
    return options;
}

std::string plan_help_text() {
    return R"(rhizome-plan - what a run would do, without running it, and what it did

usage:
  rhizome-plan schedule [--KEY VALUE]...   makes, draws, checks and times a schedule
  rhizome-plan schedule --help             all keys
  rhizome-plan timeline RUN [--svg FILE]   shows where the time of a run went
  rhizome-plan timeline --help             how
  rhizome-plan --help                      this page

example:
  rhizome-plan schedule --style zb-h1 --pipelines 4 --microbatches 8

exit codes: 0 done, 1 a bug in rhizome, 2 something asked for is wrong, 3 a timeline is damaged
)";
}

std::string schedule_help_text() {
    std::string text = R"(usage: rhizome-plan schedule [--KEY VALUE]...

Makes a schedule (or reads one), checks it, runs it on a clock and says what it takes: the time, the
share of bubbles, what decides the time, the activations alive. Without model.size or costs a layer
takes one second for each of forward, input part and weight part, and messages take none. Not
counted are the agreement, that several links may share one adapter, and, unless costs are given,
the optimizer.

)";
    constexpr std::size_t indent = 24;
    for (const Flag& flag : flags()) {
        text += padded("  --" + flag.name, indent) + flag.takes + "\n" + std::string(indent, ' ') +
                flag.help + "\n";
    }
    return text + R"(
example:
  rhizome-plan schedule --style interleaved --pipelines 4,2 --parts 2 --microbatches 12 --svg s.svg
)";
}

}  // namespace rhizome::cli
