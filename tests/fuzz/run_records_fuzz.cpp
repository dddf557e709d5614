// Whatever bytes the small files of a run's folder have, they are refused or mean one thing: who is
// in them can be asked for, and what they say is the same after it was written again.
#include <climits>

#include "fuzz/target.hpp"
#include "world/run_records.hpp"

std::vector<std::string> rhizome::fuzz::seeds() {
    using namespace rhizome::world;
    return {to_text(Ending{ExitCode::done, "trained 300 of 300 steps"}),
            to_text(Ending{ExitCode::unsaved, ""}),
            to_text(Recorded{"rank.3", "node-1", 4711, 18'446'744'073'709'551'615U}),
            to_text(Recorded{"rank.0", "", INT_MAX, 0})};
}

void rhizome::fuzz::mend(std::string& /*input*/) {}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rhizome;
    const std::string text(reinterpret_cast<const char*>(data), size);
    const auto ending = world::parse_ending(text);
    if (ending) {
        ENSURE(ending->code <= ExitCode::unsaved);
        ENSURE(ending->reason.find('\n') == std::string::npos);
        ENSURE(world::parse_ending(to_text(*ending)) == ending);
    }
    const auto process = world::parse_recorded("rank.3", text);
    if (process) {
        ENSURE(process->pid > 0);  // others name groups of processes
        ENSURE(process->host.find('\n') == std::string::npos);
        ENSURE(world::parse_recorded("rank.3", to_text(*process)) == process);
    }
    ENSURE(!ending || !process);
    fuzz::note(ending || process ? fuzz::Outcome::accepted : fuzz::Outcome::refused);
    return 0;
}
