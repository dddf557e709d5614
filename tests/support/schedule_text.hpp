// Schedules written by hand: lists of words as to_text() prints them, or a story of who does what
// in which order, from which both sides of every message follow.
#pragma once

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "schedule/instruction.hpp"

namespace rhizome::schedule::by_hand {

inline Instruction instruction_of(const std::string& word) {
    const std::size_t letters = word.find_first_of("0123456789<>");
    const std::string name = word.substr(0, letters);
    for (std::uint8_t number = 0; number <= static_cast<std::uint8_t>(Kind::receive_parameters);
         ++number) {
        Instruction result{.kind = static_cast<Kind>(number)};
        if (word_of(result.kind) != name) continue;
        if (letters == std::string::npos) return result;
        std::istringstream rest{word.substr(letters)};
        char mark = 0;
        std::int32_t first = 0;
        std::int32_t second = 0;
        if (is_compute(result.kind) || is_wire(result.kind)) {
            ENSURE(rest >> first >> mark >> second && mark == ':');
            result.stage = StageId{first};
            result.microbatch = Microbatch{second};
        } else if (is_sum(result.kind)) {
            ENSURE(rest >> first >> mark && mark == ':');
            result.stage = StageId{first};
            ENSURE(rest >> first >> mark >> second && mark == '-');
            result.lanes = {first, second + 1};
        }
        if (rest >> mark >> first) result.peer = WorkerId{first};
        ENSURE(to_text(result) == word);
        return result;
    }
    ENSURE(false && "a kind of instruction");
    std::abort();
}

inline std::vector<Instruction> program_of(const std::string& words) {
    std::vector<Instruction> program;
    std::istringstream text{words};
    for (std::string word; text >> word;) program.push_back(instruction_of(word));
    return program;
}

inline Schedule schedule_of(const RunShape& shape, const std::vector<std::string>& programs) {
    Schedule schedule{.shape = shape, .programs = {}};
    for (const std::string& words : programs) schedule.programs.push_back(program_of(words));
    return schedule;
}

/// Everything happens in the order in which it is told; a send puts its receive into the peer's
/// list at once. So no story deadlocks.
class Story {
  public:
    explicit Story(RunShape shape) : schedule_{std::move(shape), {}} {
        schedule_.programs.resize(schedule_.shape.workers.size());
    }

    Story& does(std::int32_t worker, const std::string& words) {
        for (const Instruction& instruction : program_of(words)) does(worker, instruction);
        return *this;
    }

    Story& does(std::int32_t worker, const Instruction& instruction) {
        ENSURE(!is_receive(instruction.kind));
        const WorkerId self{worker};
        schedule_.programs[schedule_.shape.place_of(self)].push_back(instruction);
        if (is_send(instruction.kind)) {
            schedule_.programs[schedule_.shape.place_of(*instruction.peer)].push_back(
                counterpart(instruction, self));
        }
        return *this;
    }

    Story& all_do(const std::string& words) {
        for (const WorkerId worker : schedule_.shape.workers) does(worker.value(), words);
        return *this;
    }

    /// Parts of these workers, to everybody.
    Story& parts(const std::vector<std::int32_t>& senders) {
        for (const std::int32_t from : senders) {
            for (const WorkerId to : schedule_.shape.workers) {
                if (to != WorkerId{from}) does(from, "SP>" + std::to_string(to.value()));
            }
        }
        return *this;
    }

    [[nodiscard]] const Schedule& schedule() const { return schedule_; }

  private:
    Schedule schedule_;
};

}  // namespace rhizome::schedule::by_hand
