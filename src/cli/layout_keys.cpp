// The keys of layout: no bit of the weights depends on them.
#include <optional>

#include "cli/key_forms.hpp"
#include "engine/fault_plan.hpp"

namespace rhizome::cli {
namespace {

constexpr auto layout = KeyKind::layout;

constexpr RealRange bound_range{">= 0.01", [](double x) { return x >= 0.01; }};
constexpr RealRange rate_range{">= 1", [](double x) { return x >= 1; }};
constexpr RealRange calm_range{"in [0, 1e6]", [](double x) { return x >= 0 && x <= 1e6; }};
constexpr RealRange latency_range{"in [0, 1000]", [](double x) { return x >= 0 && x <= 1000; }};

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
                    return MaybeProblem{
                        Problem{parsed.problem, "write it as kill@2/12/F#3 or soak@7/0.001"}};
                }
                config.faults = text;
                return MaybeProblem{};
            },
            [](const RunConfig& config) { return config.faults; },
            "none"};
}

}  // namespace

std::vector<Key> make_layout_keys() {
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

namespace {

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

}  // namespace

std::vector<Key> make_shape_keys() {
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
        whole("losses.in_a_row", layout, {0, 1000},
              "Losses that can follow one another before a calm moment; each needs a communicator.",
              [](auto& c) -> auto& { return c.losses.in_a_row; }),
        real("losses.calm_s", layout, calm_range,
             "Seconds after a repair until a moment is calm: communicators for further losses are "
             "made then, if fewer than losses.in_a_row are left.",
             [](auto& c) -> auto& { return c.losses.calm_s; }),
        real("pace.flops_per_s", layout, rate_range, "Of the accelerator that device=paced plays.",
             [](auto& c) -> auto& { return c.pace.flops_per_s; }),
        real("pace.link_bytes_per_s", layout, rate_range, "Of each link that device=paced plays.",
             [](auto& c) -> auto& { return c.pace.link_bytes_per_s; }),
        real("pace.link_latency_s", layout, latency_range, "Of each link that device=paced plays.",
             [](auto& c) -> auto& { return c.pace.link_latency_s; }),
    };
}

}  // namespace rhizome::cli
