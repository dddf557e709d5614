#include "cli/profile_command.hpp"

#include <algorithm>

#include "cli/make_device.hpp"
#include "cli/memory_limit.hpp"
#include "cli/output_file.hpp"
#include "cli/values.hpp"
#include "core/clock.hpp"
#include "core/text.hpp"
#include "engine/layer_times.hpp"
#include "model/gpt.hpp"
#include "schedule/cost_table.hpp"

namespace rhizome::cli {
namespace {

schedule::CostTable cost_table_of(const LayerTable& network,
                                  const std::vector<engine::LayerTimes>& times) {
    schedule::CostTable table;
    for (std::size_t i = 0; i < times.size(); ++i) {
        const LayerFacts& layer = network.layers[i];
        const auto seconds = [](double measured) {
            return std::max(measured, schedule::least_seconds);
        };
        schedule::MeasuredLayer measured{
            .name = layer.name,
            .cost = {.forward_s = seconds(times[i].forward_s),
                     .backward_input_s = seconds(times[i].backward_input_s),
                     .backward_weight_s = seconds(times[i].backward_weight_s),
                     .wire_bytes = layer.costs.output_bytes,
                     .saved_bytes = layer.costs.saved_bytes,
                     .deferred_bytes = layer.costs.deferred_bytes}};
        measured.parameters = owned_elements(layer);
        if (measured.parameters > 0) measured.update_s = seconds(times[i].update_s);
        table.push_back(std::move(measured));
    }
    return table;
}

std::string sums_text(const schedule::CostTable& table) {
    schedule::LayerCost sum{};
    double update_s = 0;
    for (const schedule::MeasuredLayer& layer : table) {
        sum.forward_s += layer.cost.forward_s;
        sum.backward_input_s += layer.cost.backward_input_s;
        sum.backward_weight_s += layer.cost.backward_weight_s;
        update_s += layer.update_s;
    }
    return "a microbatch takes " + to_text_short(sum.forward_s) + " s forward, " +
           to_text_short(sum.backward_input_s) + " s + " + to_text_short(sum.backward_weight_s) +
           " s backward (input and weight part); an update takes " + to_text_short(update_s) + " s";
}

}  // namespace

ProfileOptions parse_profile_options(const Arguments& arguments, const Environment& environment,
                                     const ReadFile& read_file) {
    const TakenFlags flags = take_flags(arguments, {"output"});
    ProfileOptions options;
    for (const Setting& setting : flags.taken) {
        if (const auto problem = read_path(setting.value, options.output)) {
            throw ConfigError{setting.where + "=" + shown(setting.value) + " (" + problem->reason +
                              "), " + problem->hint};
        }
    }
    GivenConfig given = parse_given_config({}, flags.rest, environment, read_file);
    refuse_conflicts(given.config, given.places);
    if (given.config.device == DeviceKind::paced) {
        throw ConfigError{
            "device=paced (plays costs instead of having some), take cpu or reference"};
    }
    options.config = std::move(given.config);
    return options;
}

ExitCode profile_command(const ProfileOptions& options, int output) {
    const RunConfig& config = options.config;
    const model::Network network =
        model::make_gpt(config.model, config.microbatch_size, device::dtype_of(config.precision),
                        config.chunk_elements);
    const Shape row{config.model.context};
    const std::vector<TensorSpec> fields{{"tokens", row, DType::i32}, {"targets", row, DType::i32}};
    const engine::MeasuringConfig measuring{
        .fields = fields, .rows = config.microbatch_size, .token_limit = config.model.vocabulary};
    const std::int64_t workspace = workspace_tensors(config) * model::largest_tensor(network);
    expect_memory(
        static_cast<double>(engine::planned_measuring_bytes(network, measuring) + workspace),
        "measuring a layer needs", "take a smaller model or microbatch_size");
    const auto device = make_device(config);
    const SteadyClock clock;
    const schedule::CostTable table =
        cost_table_of(network.table(), engine::measure_layers(*device, network, measuring, clock));
    const std::string subject = counted(network.size(), "layer") + ", " +
                                to_short(static_cast<double>(network.table().parameters())) +
                                " parameters, microbatches of " +
                                counted(config.microbatch_size, "sample") + " of " +
                                counted(config.model.context, "token");
    const std::string text =
        schedule::to_text(table, {"one microbatch through each layer, by rhizome profile", subject,
                                  device->fingerprint(), sums_text(table)});
    if (options.output.empty()) {
        static_cast<void>(write_output(output, text));
        return ExitCode::done;
    }
    write_file("--output", options.output, text);
    static_cast<void>(write_output(output, subject + "\n" + sums_text(table) + "\nwritten to " +
                                               visible(options.output) +
                                               "; a run cuts by it with --costs\n"));
    return ExitCode::done;
}

std::string profile_help_text() {
    return R"(usage: rhizome profile [--config FILE] [--output FILE] [--KEY VALUE]...

Measures what each layer of a network costs on this host, one microbatch at a time: seconds of
forward, of the input and the weight part of backward, and of an update; bytes that cross a cut, and
that are kept. Keys are those of `rhizome train --help`; the model's, precision, microbatch_size,
device and threads count. No data are needed. It takes a few seconds; do nothing else on the machine
meanwhile. One layer is in memory at a time, so the network may be larger than that.

  --output FILE   the table is written there instead of printed

The table is text and may be edited. It fits every network with the same layers and sizes; that
precision, device and threads are the same as well is left to you. A run takes it with the key
`costs`: its layers are cut so that stages take equally long, and device=paced rehearses just these
times. `rhizome-plan schedule --costs FILE` says how long a step would take, for any layout.

example:
  rhizome profile --model.size gpt2 --microbatch_size 1 --device cpu --output gpt2.costs
  rhizome-plan schedule --costs gpt2.costs --pipelines 2 --style zb-h2
  rhizome run -n 2 --pipelines 2 --costs gpt2.costs --config run.conf
)";
}

}  // namespace rhizome::cli
