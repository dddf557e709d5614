// A schedule as text. Blanks part words; `#` begins a comment; empty lines count for nothing.
//
//   rhizome schedule 1
//   microbatches 4 lanes 2
//   workers 0 1
//   kept 1                                # lanes for which nothing is computed; the line may lack
//   pipeline lanes 0-1 : 0@0-2 1@3-5      # its stages in order: worker@first layer-last layer
//   worker 0 : F0:0 SA0:0>1 F0:1 SA0:1>1  # a line per worker, in the order of the line `workers`
//   worker 1 : RA1:0<0 F1:0 B1:0 SG1:0>0 SS1:0-1>0 C
//
// Ranges name their last element; an empty one ends before it begins, as 3-2. What is written is
// read back as it was, right or wrong, but for fields that a kind of instruction does not use.
#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/text.hpp"
#include "schedule/draw.hpp"

namespace rhizome::schedule {
std::optional<Kind> kind_of(std::string_view word) {
    constexpr auto kinds = static_cast<std::uint8_t>(Kind::receive_parameters) + 1;
    for (std::uint8_t number = 0; number < kinds; ++number) {
        if (word_of(static_cast<Kind>(number)) == word) return static_cast<Kind>(number);
    }
    return std::nullopt;
}

namespace {

constexpr std::string_view version = "1";
constexpr std::int64_t instructions_max = 10'000'000;

std::string to_text(std::int32_t first, std::int32_t last) {
    return std::to_string(first) + "-" + std::to_string(std::int64_t{last} - 1);
}

/// What is left of a word that is read from left to right.
class Rest {
  public:
    explicit Rest(std::string_view word) : text_{word} {}

    [[nodiscard]] bool empty() const { return text_.empty(); }

    std::string_view letters() {
        std::size_t count = 0;
        while (count < text_.size() && 'A' <= text_[count] && text_[count] <= 'Z') ++count;
        const std::string_view letters = text_.substr(0, count);
        text_.remove_prefix(count);
        return letters;
    }

    bool skip(char wanted) {
        if (!text_.starts_with(wanted)) return false;
        text_.remove_prefix(1);
        return true;
    }

    std::optional<std::int32_t> integer() {
        std::int32_t value = 0;
        const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
        if (error != std::errc{}) return std::nullopt;
        text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
        return value;
    }

    /// A number that may become an id.
    std::optional<std::int32_t> natural() {
        return text_.starts_with('-') ? std::nullopt : integer();
    }

    /// [first, last) from "first-last": a LayerRange or a LaneRange.
    template <class Range>
    std::optional<Range> range() {
        const auto first = integer();
        if (!first || !skip('-')) return std::nullopt;
        const auto last = integer();
        if (!last || *last == std::numeric_limits<std::int32_t>::max()) return std::nullopt;
        return Range{*first, *last + 1};
    }

  private:
    std::string_view text_;
};

std::optional<StageShape> stage_of(std::string_view word) {
    Rest rest{word};
    const auto worker = rest.natural();
    if (!worker || !rest.skip('@')) return std::nullopt;
    const auto layers = rest.range<LayerRange>();
    if (!layers || !rest.empty()) return std::nullopt;
    return StageShape{WorkerId{*worker}, *layers};
}

std::optional<Instruction> instruction_of(std::string_view word) {
    Rest rest{word};
    const auto kind = kind_of(rest.letters());
    if (!kind) return std::nullopt;
    Instruction instruction{.kind = *kind};
    if (is_compute(*kind) || is_wire(*kind) || is_sum(*kind)) {
        const auto stage = rest.natural();
        if (!stage || !rest.skip(':')) return std::nullopt;
        instruction.stage = StageId{*stage};
    }
    if (is_sum(*kind)) {
        const auto lanes = rest.range<LaneRange>();
        if (!lanes) return std::nullopt;
        instruction.lanes = *lanes;
    } else if (is_compute(*kind) || is_wire(*kind)) {
        const auto microbatch = rest.natural();
        if (!microbatch) return std::nullopt;
        instruction.microbatch = Microbatch{*microbatch};
    }
    if (rest.empty()) return instruction;
    if (!rest.skip(is_send(*kind) ? '>' : '<')) return std::nullopt;
    const auto peer = rest.natural();
    if (!peer || !rest.empty()) return std::nullopt;
    instruction.peer = WorkerId{*peer};
    return instruction;
}

/// Goes through the words of a text, line by line.
class Lines {
  public:
    explicit Lines(std::string_view text) : left_{text} {}

    /// To the next line with a word. False at the end of the text.
    bool next_line() {
        while (!left_.empty()) {
            const std::size_t end = left_.find('\n');
            line_ = left_.substr(0, std::min(end, left_.find('#')));
            left_.remove_prefix(end == std::string_view::npos ? left_.size() : end + 1);
            ++number_;
            if (line_.find_first_not_of(blanks) != std::string_view::npos) return true;
        }
        line_ = {};
        word_ = {};
        return false;
    }

    /// The next word of this line; empty at its end.
    std::string_view next_word() {
        line_.remove_prefix(std::min(line_.find_first_not_of(blanks), line_.size()));
        word_ = line_.substr(0, line_.find_first_of(blanks));
        line_.remove_prefix(word_.size());
        return word_;
    }

    /// The word read last is wrong.
    [[noreturn]] void fail(const std::string& reason, const std::string& hint) const {
        constexpr std::size_t shown = 40;
        std::string word = visible(word_.substr(0, shown));
        if (word_.size() > shown) word += "...";
        throw ConfigError{"schedule, line " + std::to_string(std::max(number_, std::int64_t{1})) +
                          ": " + (word.empty() ? "the end" : "`" + word + "`") + " (" + reason +
                          "), " + hint};
    }

  private:
    static constexpr std::string_view blanks = " \t\r";

    std::string_view left_;  // lines that are still to come
    std::string_view line_;  // the part of this one that is still to come
    std::string_view word_;
    std::int64_t number_ = 0;
};

class Parser {
  public:
    explicit Parser(std::string_view text) : lines_{text} {}

    Schedule schedule() {
        header();
        const LaneShape lanes = lane_shape();
        Schedule schedule{.shape = {.workers = workers(), .lanes = lanes, .pipelines = {}},
                          .programs = {}};
        bool more = lines_.next_line();
        std::string_view word = lines_.next_word();
        if (more && word == "kept") {
            schedule.kept = numbers<Lane>();
            more = lines_.next_line();
            word = lines_.next_word();
        }
        for (; more && word == "pipeline"; word = lines_.next_word()) {
            schedule.shape.pipelines.push_back(pipeline());
            more = lines_.next_line();
        }
        for (const WorkerId worker : schedule.shape.workers) {
            expect(word, "worker");
            schedule.programs.push_back(program(worker));
            more = lines_.next_line();
            word = lines_.next_word();
        }
        if (more) lines_.fail("every worker has its line already", "end the text before it");
        return schedule;
    }

  private:
    void expect(std::string_view word, std::string_view wanted) const {
        if (word == wanted) return;
        const std::string quoted = "`" + std::string{wanted} + "`";
        lines_.fail("where " + quoted + " is due", "write " + quoted + " there");
    }
    void expect_word(std::string_view wanted) { expect(lines_.next_word(), wanted); }

    void expect_line(std::string_view wanted) {
        (void)lines_.next_line();
        expect_word(wanted);
    }

    void expect_end_of_line() {
        if (!lines_.next_word().empty()) {
            lines_.fail("behind the last word of its line", "leave it out");
        }
    }

    std::int32_t natural(std::string_view word) const {
        Rest rest{word};
        const auto value = rest.natural();
        if (!value || !rest.empty()) {
            lines_.fail("no whole number", "write one from 0 to 2147483647");
        }
        return *value;
    }

    void header() {
        expect_line("rhizome");
        expect_word("schedule");
        if (lines_.next_word() != version) {
            lines_.fail("no version that this program knows",
                        "write version " + std::string{version});
        }
        expect_end_of_line();
    }

    LaneShape lane_shape() {
        expect_line("microbatches");
        const std::int32_t microbatches = natural(lines_.next_word());
        expect_word("lanes");
        const std::int32_t lanes = natural(lines_.next_word());
        if (microbatches == 0 || lanes == 0 || microbatches % lanes != 0) {
            lines_.fail("does not divide the " + std::to_string(microbatches) + " microbatches",
                        "take a divisor of a positive number");
        }
        expect_end_of_line();
        return {microbatches, lanes};
    }

    std::vector<WorkerId> workers() {
        expect_line("workers");
        return numbers<WorkerId>();
    }

    /// To the end of the line.
    template <class Id>
    std::vector<Id> numbers() {
        std::vector<Id> ids;
        for (auto word = lines_.next_word(); !word.empty(); word = lines_.next_word()) {
            ids.emplace_back(natural(word));
        }
        return ids;
    }

    PipelineShape pipeline() {
        expect_word("lanes");
        Rest rest{lines_.next_word()};
        const auto lanes = rest.range<LaneRange>();
        if (!lanes || !rest.empty()) {
            lines_.fail("no lanes", "write the first and the last one, as 0-3");
        }
        expect_word(":");
        PipelineShape pipeline{.stages = {}, .lanes = *lanes};
        for (auto word = lines_.next_word(); !word.empty(); word = lines_.next_word()) {
            const auto stage = stage_of(word);
            if (!stage) {
                lines_.fail("no stage", "write worker@first layer-last layer, as 0@0-2");
            }
            pipeline.stages.push_back(*stage);
        }
        return pipeline;
    }

    /// Behind the word `worker`.
    std::vector<Instruction> program(WorkerId worker) {
        if (natural(lines_.next_word()) != worker.value()) {
            lines_.fail("where worker " + std::to_string(worker.value()) + " is due",
                        "keep the order of the line `workers`");
        }
        expect_word(":");
        std::vector<Instruction> program;
        for (auto word = lines_.next_word(); !word.empty(); word = lines_.next_word()) {
            const auto instruction = instruction_of(word);
            if (!instruction) {
                lines_.fail("no instruction", "write it like F0:7, SA0:7>1, SS0:0-3>1 or C");
            }
            if (++instructions_ > instructions_max) {
                lines_.fail("the " + std::to_string(instructions_) + "th instruction",
                            "take a smaller schedule");
            }
            program.push_back(*instruction);
        }
        return program;
    }

    Lines lines_;
    std::int64_t instructions_ = 0;
};

}  // namespace

std::string to_text(const Schedule& schedule) {
    const RunShape& shape = schedule.shape;
    ENSURE(schedule.programs.size() == shape.workers.size());
    std::string text = "rhizome schedule " + std::string{version} + "\nmicrobatches " +
                       std::to_string(shape.lanes.microbatches) + " lanes " +
                       std::to_string(shape.lanes.lanes) + "\nworkers";
    for (const WorkerId worker : shape.workers) text += " " + std::to_string(worker.value());
    text += "\n";
    if (!schedule.kept.empty()) {
        text += "kept";
        for (const Lane lane : schedule.kept) text += " " + std::to_string(lane.value());
        text += "\n";
    }
    for (const PipelineShape& pipeline : shape.pipelines) {
        text += "pipeline lanes " + to_text(pipeline.lanes.first, pipeline.lanes.last) + " :";
        for (const StageShape& stage : pipeline.stages) {
            text += " " + std::to_string(stage.worker.value()) + "@" +
                    to_text(stage.layers.first, stage.layers.last);
        }
        text += "\n";
    }
    for (std::size_t place = 0; place < shape.workers.size(); ++place) {
        text += "worker " + std::to_string(shape.workers[place].value()) + " :";
        for (const Instruction& instruction : schedule.programs[place]) {
            text += " ";
            text += to_text(instruction);
        }
        text += "\n";
    }
    return text;
}

Schedule parse_schedule(std::string_view text) { return Parser{text}.schedule(); }

}  // namespace rhizome::schedule
