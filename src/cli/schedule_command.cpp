#include "cli/schedule_command.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "cli/cost_file.hpp"
#include "cli/output_file.hpp"
#include "cli/text_file.hpp"
#include "cli/values.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "model/gpt.hpp"
#include "plan/cut.hpp"
#include "plan/ownership.hpp"
#include "plan/shape.hpp"
#include "schedule/check.hpp"
#include "schedule/draw.hpp"
#include "schedule/dry_run.hpp"
#include "schedule/generate.hpp"

namespace rhizome::cli {
namespace {

using schedule::Costs;
using schedule::Schedule;
using schedule::Style;

constexpr std::size_t instructions_drawn_max = 4000;
constexpr double columns_drawn_max = 1000;
constexpr double instructions_max = 1e7;
constexpr std::int32_t layers_max = 65536;

/// A schedule and what is known of the network that it is for.
struct Subject {
    Schedule schedule;
    LayerTable table;
    OwnershipMap owners;
    Costs costs;
    double unit_s;  // of a column of the drawing
};

/// Layers without a name and with one parameter each, for schedules in the abstract.
LayerTable equal_layers(std::int32_t layers) {
    LayerTable table{.layers = {}, .chunk_elements = 1};
    for (std::int32_t i = 0; i < layers; ++i) {
        LayerFacts facts;
        facts.name = "layer." + std::to_string(i);
        facts.parameters = {{.spec = {"parameter", Shape{1}, DType::f32}}};
        table.layers.push_back(std::move(facts));
    }
    return table;
}

/// Of --costs, if it is given.
using Measured = std::optional<schedule::CostTable>;

LayerTable table_of(const ScheduleOptions& options, const Measured& measured,
                    std::int32_t stages_of_deepest) {
    if (options.model_size.empty()) {
        if (measured) return schedule::layers_of(*measured);
        return equal_layers(options.layers > 0 ? options.layers : stages_of_deepest);
    }
    const auto size =
        std::find_if(model::gpt_sizes.begin(), model::gpt_sizes.end(),
                     [&](const model::GptSize& each) { return each.name == options.model_size; });
    const model::GptConfig config{.blocks = size->blocks,
                                  .channels = size->channels,
                                  .heads = size->heads,
                                  .context = size->context,
                                  .vocabulary = size->vocabulary};
    return model::make_gpt(config, options.microbatch_size, DType::f32, 1 << 22).table();
}

Measured read_costs(const ScheduleOptions& options) {
    if (options.costs.empty()) return std::nullopt;
    return read_cost_table("--costs=" + shown(options.costs), options.costs, nullptr);
}

Costs costs_of(const ScheduleOptions& options, const Measured& measured, const LayerTable& table) {
    if (measured) {
        if (const auto misfit = schedule::find_misfit(*measured, table)) {
            throw ConfigError{"--costs=" + shown(options.costs) + " (" + *misfit +
                              "), name the network that was measured, or none"};
        }
        Costs costs = schedule::costs_of(*measured);
        costs.link_latency_s = options.link_latency_s;
        costs.link_bytes_per_s = options.link_bytes_per_s;
        return costs;
    }
    if (options.model_size.empty()) {
        return schedule::equal_costs(static_cast<std::int32_t>(table.layers.size()));
    }
    return schedule::estimated_costs(table, options.flops_per_s, options.link_bytes_per_s,
                                     options.link_latency_s);
}

/// The fewest lanes that divide the microbatches and give each pipeline one.
std::int32_t lanes_of(const ScheduleOptions& options) {
    const auto pipelines = static_cast<std::int32_t>(options.depths.size());
    if (options.lanes > 0) {
        if (options.microbatches % options.lanes != 0) {
            throw ConfigError{"--lanes=" + std::to_string(options.lanes) +
                              " (does not divide --microbatches=" +
                              std::to_string(options.microbatches) + "), take a divisor"};
        }
        return options.lanes;
    }
    for (std::int32_t lanes = pipelines; lanes <= options.microbatches; ++lanes) {
        if (options.microbatches % lanes == 0) return lanes;
    }
    throw ConfigError{"--pipelines (" + std::to_string(pipelines) +
                      " of them, more than --microbatches=" + std::to_string(options.microbatches) +
                      "), take fewer"};
}

RunShape shape_of(const ScheduleOptions& options, const LayerTable& table, const Costs& costs) {
    plan::ShapeWish wish{.pipelines = {},
                         .lanes = LaneShape{options.microbatches, lanes_of(options)},
                         .interleave = options.parts,
                         .layers = plan::layer_loads(table, costs, 16)};
    std::vector<plan::WorkerFacts> workers;
    const auto hire = [&](std::int32_t count) {
        for (std::int32_t i = 0; i < count; ++i) {
            workers.push_back({WorkerId{static_cast<std::int32_t>(workers.size())}});
        }
    };
    for (const std::int32_t depth : options.depths) {
        plan::PipelineWish pipeline{.workers = depth};
        if (!options.cut.empty()) {
            const auto cut =
                plan::parse_cut(options.cut, static_cast<std::int32_t>(table.layers.size()));
            if (const auto* fault = std::get_if<plan::NoCut>(&cut)) {
                throw ConfigError{"--cut: " + fault->message()};
            }
            pipeline.cut = std::get<plan::Cut>(cut);
        }
        wish.pipelines.push_back(std::move(pipeline));
        hire(depth);
    }
    hire(options.spares);
    return plan::make_shape(workers, wish);
}

OwnershipMap owners_of(const ScheduleOptions& options, const LayerTable& table,
                       const RunShape& shape) {
    // Every worker a failure domain of its own.
    std::vector<plan::FailureDomain> domains;
    for (std::size_t i = 0; i < shape.workers.size(); ++i) {
        domains.emplace_back(static_cast<std::int32_t>(i));
    }
    return plan::assign_owners(table, shape, domains, options.owners, nullptr);
}

double unit_of(const ScheduleOptions& options, const RunShape& shape, const Costs& costs) {
    if (options.model_size.empty() && options.costs.empty()) return 1;
    double shortest = 0;  // half of the shortest forward of a stage
    for (const PipelineShape& pipeline : shape.pipelines) {
        for (const StageShape& stage : pipeline.stages) {
            const double seconds = costs.compute_s(schedule::Kind::forward, stage.layers) / 2;
            shortest = shortest == 0 ? seconds : std::min(shortest, seconds);
        }
    }
    return shortest;
}

/// Before it is made: what would take minutes and gigabytes is nothing to look at.
void check_size(const ScheduleOptions& options) {
    double workers = options.spares;
    double computed = 0;  // each microbatch by each stage of one pipeline, the deepest at most
    for (const std::int32_t depth : options.depths) {
        workers += depth;
        computed = std::max(computed, static_cast<double>(depth) * options.parts);
    }
    // Forward, two parts of backward, recomputation and four messages; and parts to everybody.
    const double instructions = 8 * computed * options.microbatches + 2 * workers * workers;
    if (instructions > instructions_max) {
        throw ConfigError{"--pipelines, --parts, --spares and --microbatches (make up to " +
                          to_short(instructions) + " instructions, more than " +
                          to_short(instructions_max) + "), take less of one of them"};
    }
}

Subject make_subject(const ScheduleOptions& options) {
    check_size(options);
    const std::int32_t deepest =
        *std::max_element(options.depths.begin(), options.depths.end()) * options.parts;
    const Measured measured = read_costs(options);
    LayerTable table = table_of(options, measured, deepest);
    Costs costs = costs_of(options, measured, table);
    const RunShape shape = shape_of(options, table, costs);
    if (const auto misfit = schedule::find_misfit(options.style, shape)) {
        throw ConfigError{*misfit + " (with --parts=" + std::to_string(options.parts) +
                          "), take another style or --parts"};
    }
    OwnershipMap owners = owners_of(options, table, shape);
    Schedule bare = schedule::generate(options.style, shape);
    if (options.recompute) bare = schedule::with_recomputation(bare);
    const Schedule wired = schedule::with_wires(bare, costs);
    Schedule full = options.style == Style::evaluation
                        ? schedule::with_evaluation_end(wired)
                        : schedule::with_step_end(wired, table, owners);
    const double unit_s = unit_of(options, shape, costs);
    return {std::move(full), std::move(table), std::move(owners), std::move(costs), unit_s};
}

Subject read_subject(const ScheduleOptions& options) {
    const std::string named = "--file=" + shown(options.file);
    Schedule schedule = schedule::parse_schedule(
        read_text_file(named, options.file, "name one that --show=text made"));
    std::int32_t layers = 1;
    for (const PipelineShape& pipeline : schedule.shape.pipelines) {
        if (!pipeline.stages.empty()) {
            layers = std::max(layers, pipeline.stages.back().layers.last);
        }
    }
    if (layers > layers_max) {
        throw ConfigError{named + " (has " + std::to_string(layers) + " layers, more than " +
                          std::to_string(layers_max) + "), take fewer"};
    }
    if (const auto fault = find_fault(schedule.shape, layers)) {
        throw ConfigError{named + " (" + *fault + "), mend its shape"};
    }
    const Measured measured = read_costs(options);
    LayerTable table = table_of(options, measured, layers);
    if (static_cast<std::int32_t>(table.layers.size()) != layers) {
        const std::string network = options.model_size.empty()
                                        ? "--costs=" + shown(options.costs)
                                        : "--model.size=" + options.model_size;
        throw ConfigError{named + " (has " + std::to_string(layers) + " layers, " + network +
                          " has " + std::to_string(table.layers.size()) +
                          "), name the network that it was made for"};
    }
    Costs costs = costs_of(options, measured, table);
    const double unit_s = unit_of(options, schedule.shape, costs);
    OwnershipMap owners = owners_of(options, table, schedule.shape);
    return {std::move(schedule), std::move(table), std::move(owners), std::move(costs), unit_s};
}

bool trains(const Schedule& schedule) {
    return std::any_of(schedule.programs.begin(), schedule.programs.end(), [](const auto& program) {
        return std::any_of(program.begin(), program.end(), [](const auto& each) {
            return schedule::is_compute(each.kind) && each.kind != schedule::Kind::forward;
        });
    });
}

/// Where the time goes: of each instruction on the critical path, how much later it ends than the
/// one before it, by kind. The sum is the makespan.
std::string critical_path_of(const Schedule& schedule, const schedule::DryRun& run) {
    std::map<schedule::Kind, double> seconds;
    double before = 0;
    for (const schedule::Place& place : run.critical_path) {
        const double end = run.workers[place.worker].spans[place.place].end_s;
        seconds[schedule.programs[place.worker][place.place].kind] += end - before;
        before = end;
    }
    std::string text;
    for (const auto& [kind, sum] : seconds) {
        if (sum <= 0) continue;
        text += (text.empty() ? "" : ", ") + std::string{schedule::word_of(kind)} + " " +
                to_text_short(sum) + " s";
    }
    return text;
}

std::string summary_of(const Subject& subject, const schedule::DryRun& run) {
    std::size_t instructions = 0;
    std::int64_t activations = 0;
    std::int64_t bytes = 0;
    for (std::size_t w = 0; w < run.workers.size(); ++w) {
        instructions += subject.schedule.programs[w].size();
        activations = std::max(activations, run.workers[w].peak_activations);
        bytes = std::max(bytes, run.workers[w].peak_bytes);
    }
    const RunShape& shape = subject.schedule.shape;
    std::string text;
    const auto row = [&](const std::string& name, const std::string& value) {
        text += padded(name, 19) + value + "\n";
    };
    row("workers", std::to_string(shape.workers.size()));
    for (std::size_t p = 0; p < shape.pipelines.size(); ++p) {
        plan::Cut cut;
        for (const StageShape& stage : shape.pipelines[p].stages) cut.push_back(stage.layers);
        const LaneRange lanes = shape.pipelines[p].lanes;
        row("pipeline " + std::to_string(p), "layers " + plan::text_of(cut) + ", lanes " +
                                                 std::to_string(lanes.first) + "-" +
                                                 std::to_string(lanes.last - 1));
    }
    row("instructions", std::to_string(instructions) + ", without a fault");
    row("makespan", to_text_short(run.makespan_s) + " s");
    row("bubbles", to_fixed(100 * run.bubble_share, 1) + " %");
    row("activations alive",
        "at most " + std::to_string(activations) +
            (activations == 1 ? " (stage, microbatch) pair" : " (stage, microbatch) pairs") +
            (bytes > 0 ? ", " + to_short(static_cast<double>(bytes)) + "B" : std::string{}));
    row("critical path", critical_path_of(subject.schedule, run));
    return text;
}

}  // namespace

std::string schedule_command(const ScheduleOptions& options) {
    const Subject subject = options.file.empty() ? make_subject(options) : read_subject(options);
    const auto purpose =
        trains(subject.schedule) ? schedule::Purpose::training : schedule::Purpose::evaluation;
    const auto fault = schedule::find_fault(subject.schedule, purpose, subject.table,
                                            subject.owners, {.messages_max = 0});
    if (fault) {
        if (options.file.empty()) ENSURE(false && "a generated schedule is without fault");
        throw ConfigError{
            "--file=" + shown(options.file) + " (" + *fault +
            "), mend it; --owners, --model.size and --costs have to be what it was made with"};
    }
    const auto run =
        schedule::dry_run(subject.schedule, subject.costs, {&subject.table, &subject.owners});
    ENSURE(run.has_value());
    if (!options.svg.empty()) write_file("--svg", options.svg, draw_svg(subject.schedule, *run));
    if (options.show == Show::text) return to_text(subject.schedule);
    std::string text;
    if (options.show == Show::drawing) {
        std::size_t instructions = 0;
        for (const auto& program : subject.schedule.programs) instructions += program.size();
        const bool fits = instructions <= instructions_drawn_max &&
                          run->makespan_s <= columns_drawn_max * subject.unit_s;
        text = fits ? draw(subject.schedule, *run, subject.unit_s) + "\n"
                    : "(too long to draw here: --svg makes a picture)\n\n";
    }
    return text + summary_of(subject, *run);
}

}  // namespace rhizome::cli
