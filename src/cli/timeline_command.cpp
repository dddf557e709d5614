#include "cli/timeline_command.hpp"

#include "cli/output_file.hpp"
#include "cli/timeline.hpp"
#include "cli/timeline_shares.hpp"
#include "cli/timeline_svg.hpp"
#include "cli/values.hpp"
#include "core/text.hpp"

namespace rhizome::cli {

TimelineOptions parse_timeline_options(const Arguments& arguments) {
    if (arguments.empty() || arguments.front().empty() || arguments.front().starts_with('-')) {
        throw ConfigError{
            "rhizome-plan timeline (which run?), name its folder first: "
            "rhizome-plan timeline RUN"};
    }
    TimelineOptions options{.folder = arguments.front()};
    const Flags known{.names = {"svg", "width"}, .help = "rhizome-plan timeline --help"};
    for (const Setting& setting : flag_settings({arguments.begin() + 1, arguments.end()}, known)) {
        MaybeProblem problem;
        if (setting.key == "svg") {
            problem = read_path(setting.value, options.svg);
        } else {
            std::int64_t width = options.width;
            problem = read_whole(setting.value, {picture_width_min, picture_width_max}, width);
            options.width = static_cast<std::int32_t>(width);
        }
        if (problem) {
            throw ConfigError{setting.where + "=" + shown(setting.value) + " (" + problem->reason +
                              "), " + problem->hint};
        }
    }
    return options;
}

std::string timeline_help_text() {
    return R"(usage: rhizome-plan timeline RUN [--svg FILE] [--width N]

Shows where the time went in the steps of a run that have a timeline: those that its key `timeline`
named. RUN is the run's folder. Puts the timelines of its workers together in RUN/timeline.json,
which https://ui.perfetto.dev opens, and prints a line per worker:

  forward, recompute, backward, weight, update   computing
  exchange   sending, receiving, adding up, agreeing
  waits      for another worker, for the device, or until a message has left
  bubble     the share of the time in which no microbatch is computed

  --svg FILE   a picture is written there
  --width N    of the picture, 600..20000; default: 1200

example:
  rhizome run -n 6 --folder runs/first --timeline 10-13 --config configs/demo.conf
  rhizome-plan timeline runs/first --svg timeline.svg
)";
}

std::string timeline_command(const TimelineOptions& options, const Log& log) {
    const auto files = state::make_file_system();
    const Timelines all = read_timelines(*files, options.folder);
    const Timeline& timeline = all.timeline;
    for (const std::string& problem : all.left_out) log.warn("left out: " + problem);
    for (const WorkerTimeline& worker : timeline.workers) {
        if (worker.left_out == 0) continue;
        log.warn("worker " + std::to_string(worker.worker.value()) + " had no room for " +
                 counted(worker.left_out, "span"));
    }
    try {
        write_merged(*files, options.folder, timeline);
    } catch (const state::FileError& error) {
        log.warn(shown(error.path()) + " (" + error.reason() + "): it was not written");
    }
    if (!options.svg.empty()) write_file("--svg", options.svg, draw_svg(timeline, options.width));
    return "steps " + std::to_string(timeline.steps.first) + " to " +
           std::to_string(timeline.steps.last) + " of " +
           counted(static_cast<std::int64_t>(timeline.workers.size()), "worker") + "\n\n" +
           table_of(shares_of(timeline));
}

}  // namespace rhizome::cli
