#include "schedule/generate.hpp"

#include <algorithm>
#include <array>

namespace rhizome::schedule {
namespace {

constexpr std::array<std::pair<Style, std::string_view>, 6> names{
    {{Style::gpipe, "gpipe"},
     {Style::one_f_one_b, "1f1b"},
     {Style::interleaved, "interleaved"},
     {Style::zero_bubble_h1, "zb-h1"},
     {Style::zero_bubble_h2, "zb-h2"},
     {Style::evaluation, "evaluation"}}};

/// One worker's list under construction, with the pipeline's microbatches counted from 0.
class Program {
  public:
    explicit Program(const std::vector<Microbatch>& microbatches) : microbatches_{microbatches} {}

    void add(Kind kind, std::int32_t stage, std::int32_t microbatch) {
        instructions_.push_back({.kind = kind,
                                 .stage = StageId{stage},
                                 .microbatch = microbatches_[Microbatch{microbatch}.index()]});
    }
    [[nodiscard]] std::vector<Instruction> take() { return std::move(instructions_); }

  private:
    const std::vector<Microbatch>& microbatches_;  // ascending
    std::vector<Instruction> instructions_;
};

void gpipe(Program& program, std::int32_t stage, std::int32_t microbatches) {
    for (std::int32_t m = 0; m < microbatches; ++m) program.add(Kind::forward, stage, m);
    for (std::int32_t m = 0; m < microbatches; ++m) program.add(Kind::backward, stage, m);
}

void one_f_one_b(Program& program, std::int32_t stage, std::int32_t stages,
                 std::int32_t microbatches) {
    std::int32_t forwards = 0;
    const std::int32_t warm_up = std::min(stages - 1 - stage, microbatches);
    while (forwards < warm_up) program.add(Kind::forward, stage, forwards++);
    for (std::int32_t m = 0; m < microbatches; ++m) {
        if (forwards < microbatches) program.add(Kind::forward, stage, forwards++);
        program.add(Kind::backward, stage, m);
    }
}

/// 1F1B in which weight parts stay behind by as many microbatches as there are stages before this
/// one, so that at the end, where 1F1B waits for gradients, each stage still has work.
void zero_bubble_h1(Program& program, std::int32_t stage, std::int32_t stages,
                    std::int32_t microbatches) {
    std::int32_t forwards = 0;
    std::int32_t weights = 0;
    const std::int32_t warm_up = std::min(stages - 1 - stage, microbatches);
    while (forwards < warm_up) program.add(Kind::forward, stage, forwards++);
    for (std::int32_t m = 0; m < microbatches; ++m) {
        if (forwards < microbatches) program.add(Kind::forward, stage, forwards++);
        program.add(Kind::backward_input, stage, m);
        if (m >= stage) program.add(Kind::backward_weight, stage, weights++);
    }
    while (weights < microbatches) program.add(Kind::backward_weight, stage, weights++);
}

/// Twice the warm-up fills the wait for the first gradient with forwards; twice the delay of weight
/// parts pays it back at the end.
void zero_bubble_h2(Program& program, std::int32_t stage, std::int32_t stages,
                    std::int32_t microbatches) {
    std::int32_t forwards = 0;
    std::int32_t weights = 0;
    const std::int32_t warm_up = std::min(2 * (stages - stage) - 1, microbatches);
    while (forwards < warm_up) program.add(Kind::forward, stage, forwards++);
    for (std::int32_t m = 0; m < microbatches; ++m) {
        program.add(Kind::backward_input, stage, m);
        if (m >= 2 * stage) program.add(Kind::backward_weight, stage, weights++);
        if (forwards < microbatches) program.add(Kind::forward, stage, forwards++);
    }
    while (weights < microbatches) program.add(Kind::backward_weight, stage, weights++);
}

/// Microbatches that go through a worker's stages together: at least as many as there are workers,
/// or the first would come back to a worker before the last had left it. As equal as can be.
struct Groups {
    Groups(std::int32_t workers, std::int32_t microbatches_of_step)
        : count{std::max(1, microbatches_of_step / workers)}, microbatches{microbatches_of_step} {}

    /// First microbatch of a group; that of the group behind the last is the number of all.
    [[nodiscard]] std::int32_t first(std::int32_t group) const {
        return microbatches / count * group + std::min(group, microbatches % count);
    }
    [[nodiscard]] std::int32_t largest() const { return first(1); }

    std::int32_t count;
    std::int32_t microbatches;
};

enum class Direction : std::uint8_t { forward, backward };

/// A worker's (stage, microbatch) pairs: each group goes through all of its stages, one after the
/// other.
std::vector<std::pair<std::int32_t, std::int32_t>> interleaved_order(std::int32_t worker,
                                                                     std::int32_t workers,
                                                                     std::int32_t stages,
                                                                     const Groups& groups,
                                                                     Direction direction) {
    std::vector<std::pair<std::int32_t, std::int32_t>> order;
    const std::int32_t parts = stages / workers;
    for (std::int32_t group = 0; group < groups.count; ++group) {
        for (std::int32_t turn = 0; turn < parts; ++turn) {
            const std::int32_t part = direction == Direction::forward ? turn : parts - 1 - turn;
            for (std::int32_t m = groups.first(group); m < groups.first(group + 1); ++m) {
                order.emplace_back(part * workers + worker, m);
            }
        }
    }
    return order;
}

void interleaved(Program& program, std::int32_t worker, std::int32_t workers, std::int32_t stages,
                 std::int32_t microbatches) {
    const Groups groups{workers, microbatches};
    const auto forward = interleaved_order(worker, workers, stages, groups, Direction::forward);
    const auto backward = interleaved_order(worker, workers, stages, groups, Direction::backward);
    const std::int32_t wish =
        2 * (workers - worker - 1) + (stages / workers - 1) * groups.largest();
    std::size_t done = 0;
    const std::size_t warm_up = std::min(static_cast<std::size_t>(wish), forward.size());
    const auto next_forward = [&] {
        program.add(Kind::forward, forward[done].first, forward[done].second);
        ++done;
    };
    while (done < warm_up) next_forward();
    for (const auto& [stage, microbatch] : backward) {
        if (done < forward.size()) next_forward();
        program.add(Kind::backward, stage, microbatch);
    }
}

/// The workers of a pipeline in the order of their first stage.
std::vector<WorkerId> workers_of(const PipelineShape& pipeline) {
    std::vector<WorkerId> workers;
    for (const StageShape& stage : pipeline.stages) {
        if (std::find(workers.begin(), workers.end(), stage.worker) == workers.end()) {
            workers.push_back(stage.worker);
        }
    }
    return workers;
}

bool dealt_in_turn(const PipelineShape& pipeline) {
    const auto workers = workers_of(pipeline);
    if (pipeline.stages.size() % workers.size() != 0) return false;
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
        if (pipeline.stages[s].worker != workers[s % workers.size()]) return false;
    }
    return true;
}

std::vector<Instruction> program_of(Style style, const PipelineShape& pipeline, std::int32_t worker,
                                    const std::vector<Microbatch>& of_pipeline) {
    const auto stages = static_cast<std::int32_t>(pipeline.stages.size());
    const auto workers = static_cast<std::int32_t>(workers_of(pipeline).size());
    const auto microbatches = static_cast<std::int32_t>(of_pipeline.size());
    Program program{of_pipeline};
    switch (style) {
        case Style::gpipe:
            gpipe(program, worker, microbatches);
            break;
        case Style::one_f_one_b:
            one_f_one_b(program, worker, stages, microbatches);
            break;
        case Style::zero_bubble_h1:
            zero_bubble_h1(program, worker, stages, microbatches);
            break;
        case Style::zero_bubble_h2:
            zero_bubble_h2(program, worker, stages, microbatches);
            break;
        case Style::interleaved:
            interleaved(program, worker, workers, stages, microbatches);
            break;
        case Style::evaluation:
            for (const auto& [stage, m] : interleaved_order(
                     worker, workers, stages, Groups{workers, microbatches}, Direction::forward)) {
                program.add(Kind::forward, stage, m);
            }
            break;
    }
    return program.take();
}

}  // namespace

std::string_view name_of(Style style) { return names[static_cast<std::size_t>(style)].second; }

std::optional<Style> style_of(std::string_view name) {
    for (const auto& [style, known] : names) {
        if (known == name) return style;
    }
    return std::nullopt;
}

const std::vector<Style>& all_styles() {
    static const std::vector<Style> styles{Style::gpipe,          Style::one_f_one_b,
                                           Style::interleaved,    Style::zero_bubble_h1,
                                           Style::zero_bubble_h2, Style::evaluation};
    return styles;
}

std::optional<std::string> find_misfit(Style style, const RunShape& shape) {
    for (std::size_t p = 0; p < shape.pipelines.size(); ++p) {
        const PipelineShape& pipeline = shape.pipelines[p];
        const std::string name = std::string{name_of(style)} + ": pipeline " + std::to_string(p);
        const bool one_each = workers_of(pipeline).size() == pipeline.stages.size();
        const bool takes_turns = style == Style::interleaved || style == Style::evaluation;
        if (takes_turns && !dealt_in_turn(pipeline)) {
            return name + " does not deal out its stages to its workers in turn";
        }
        if (!takes_turns && !one_each) return name + " has several stages on one worker";
    }
    return std::nullopt;
}

Schedule generate(Style style, const RunShape& shape, const std::vector<Lane>& kept) {
    ENSURE(!find_misfit(style, shape));
    Schedule schedule{.shape = shape, .programs = {}, .kept = kept};
    schedule.programs.resize(shape.workers.size());
    for (std::size_t p = 0; p < shape.pipelines.size(); ++p) {
        const PipelineId id{static_cast<std::int32_t>(p)};
        std::vector<Microbatch> microbatches;
        for (std::int32_t m = shape.first_microbatch(id); m < shape.last_microbatch(id); ++m) {
            if (!schedule.keeps(Microbatch{m})) microbatches.emplace_back(m);
        }
        const auto workers = workers_of(shape.pipelines[p]);
        for (std::size_t w = 0; w < workers.size(); ++w) {
            schedule.programs[shape.place_of(workers[w])] =
                program_of(style, shape.pipelines[p], static_cast<std::int32_t>(w), microbatches);
        }
    }
    return schedule;
}

}  // namespace rhizome::schedule
