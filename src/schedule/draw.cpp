// A column shows what is computed in the middle of its unit. So a schedule whose times are whole
// units is drawn exactly, rounding errors change nothing, and what is shorter than a unit may be
// missed but never pushes others out of their place.
#include "schedule/draw.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "core/text.hpp"

namespace rhizome::schedule {
namespace {

constexpr double columns_max = 100'000;

enum class Label : std::uint8_t { microbatch, stage_and_microbatch };

/// With stages in all rows as soon as one worker has several, so that all rows read alike.
Label label_of(const Schedule& schedule) {
    for (const auto& program : schedule.programs) {
        std::optional<StageId> first;
        for (const Instruction& instruction : program) {
            if (!is_compute(instruction.kind)) continue;
            if (!first) first = instruction.stage;
            if (instruction.stage != *first) return Label::stage_and_microbatch;
        }
    }
    return Label::microbatch;
}

std::string word_in(Label label, const Instruction& instruction) {
    const std::string stage =
        label == Label::microbatch ? "" : std::to_string(instruction.stage.value());
    return stage + std::string{word_of(instruction.kind)} +
           std::to_string(instruction.microbatch.value());
}

/// The first column whose middle does not lie before that time.
std::size_t column_at(double time_s, double unit_s) {
    const double column = std::ceil(time_s / unit_s - 0.5);
    if (!(column <= columns_max)) {
        throw ConfigError{"a column of " + rhizome::to_text(unit_s) + " s (gives more than " +
                          rhizome::to_text(columns_max) + " columns), take a longer time"};
    }
    return static_cast<std::size_t>(std::max(column, 0.0));
}

std::vector<std::string> cells_of(const std::vector<Instruction>& program, const WorkerRun& run,
                                  double unit_s, Label label) {
    ENSURE(run.spans.size() == program.size());
    std::vector<std::string> cells;
    for (std::size_t place = 0; place < program.size(); ++place) {
        if (!is_compute(program[place].kind)) continue;
        const std::size_t first = column_at(run.spans[place].start_s, unit_s);
        const std::size_t last = column_at(run.spans[place].end_s, unit_s);
        if (first >= last) continue;
        cells.resize(std::max(cells.size(), last), "..");
        cells[first] = word_in(label, program[place]);
        std::fill(cells.begin() + static_cast<std::ptrdiff_t>(first) + 1,
                  cells.begin() + static_cast<std::ptrdiff_t>(last), "--");
    }
    return cells;
}

}  // namespace

std::string draw(const Schedule& schedule, const DryRun& run, double unit_s) {
    const std::vector<WorkerId>& workers = schedule.shape.workers;
    ENSURE(schedule.programs.size() == workers.size() && run.workers.size() == workers.size());
    ENSURE(unit_s > 0);
    const Label label = label_of(schedule);
    std::vector<std::vector<std::string>> rows;
    std::size_t width = 0;
    std::size_t name_width = 0;
    for (std::size_t place = 0; place < workers.size(); ++place) {
        rows.push_back(cells_of(schedule.programs[place], run.workers[place], unit_s, label));
        for (const std::string& cell : rows.back()) width = std::max(width, cell.size());
        name_width = std::max(name_width, std::to_string(workers[place].value()).size());
    }
    std::string drawing;
    for (std::size_t place = 0; place < workers.size(); ++place) {
        std::string line =
            "worker " + right_aligned(std::to_string(workers[place].value()), name_width) + " |";
        for (const std::string& cell : rows[place]) line += " " + padded(cell, width);
        line.resize(line.find_last_not_of(' ') + 1);
        drawing += line + "\n";
    }
    return drawing;
}

}  // namespace rhizome::schedule
