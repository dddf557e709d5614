// Whatever is in a file of a schedule, it is refused with one line in the form of the house, or is
// a schedule whose text gives the same text again. The same for a cut by hand, which a line may be.
#include "fuzz/target.hpp"
#include "plan/cut.hpp"
#include "schedule/draw.hpp"

namespace rhizome::fuzz {
namespace {

void check_cut(std::string_view text) {
    const plan::MaybeCut cut = plan::parse_cut(text, 9);
    if (!std::holds_alternative<plan::Cut>(cut)) return;
    const std::string again = plan::text_of(std::get<plan::Cut>(cut));
    ENSURE(plan::text_of(std::get<plan::Cut>(plan::parse_cut(again, 9))) == again);
}

}  // namespace

std::vector<std::string> seeds() {
    return {
        "rhizome schedule 1\n"
        "microbatches 4 lanes 2\n"
        "workers 0 12\n"
        "pipeline lanes 0-1 : 0@0-2 12@3-5\n"
        "worker 0 : F0:0 SA0:0>12 R0:0 RG0:0<12 I0:0 W0:0 RS1:0-1<12 RP<12 C U SW>12\n"
        "worker 12 : RA1:0<0 F1:0 B1:0 SG1:0>0 SS1:0-1>0 SP>0 C RW<0\n",
        "rhizome schedule 1\nmicrobatches 1 lanes 1\nworkers 0\n"
        "pipeline lanes 0-0 : 0@0-8\nworker 0 : F0:0 B0:0 C U\n"};
}

void mend(std::string& /*input*/) {}

}  // namespace rhizome::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rhizome;
    const std::string text(reinterpret_cast<const char*>(data), size);
    fuzz::check_cut(text);
    fuzz::check_cut(text.substr(text.find('@') == std::string::npos ? 0 : text.find('@') + 1, 12));
    try {
        const std::string once = schedule::to_text(schedule::parse_schedule(text));
        ENSURE(schedule::to_text(schedule::parse_schedule(once)) == once);
        fuzz::note(fuzz::Outcome::accepted);
    } catch (const UserError& error) {
        fuzz::note_refusal(error);
    }
    return 0;
}
