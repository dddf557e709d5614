// Whatever is in a file of costs, it is refused with one line in the form of the house, or is a
// table whose text gives the same table again.
#include "fuzz/target.hpp"
#include "schedule/cost_table.hpp"

namespace rhizome::fuzz {

std::vector<std::string> seeds() {
    return {
        "rhizome costs 1\n# of two layers\nembedding 0.1 1e-07 0.3 0.25 1000 12 34 56\n"
        "head 0.5 2 3 0 0 0 7 8\n"};
}

void mend(std::string& /*input*/) {}

}  // namespace rhizome::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rhizome;
    const std::string text(reinterpret_cast<const char*>(data), size);
    try {
        const schedule::CostTable table = schedule::parse_cost_table(text);
        ENSURE(schedule::parse_cost_table(schedule::to_text(table, {"again"})) == table);
        ENSURE(!schedule::find_misfit(table, schedule::layers_of(table)));
        fuzz::note(fuzz::Outcome::accepted);
    } catch (const UserError& error) {
        fuzz::note_refusal(error);
    }
    return 0;
}
