// Writes the states of tests/support/sample_state.hpp: write_state_stub FOLDER STEPS WRITERS
#include <cstdio>
#include <exception>

#include "core/text.hpp"
#include "support/sample_state.hpp"

int main(int count, char** words) {
    using namespace rhizome;
    if (count != 4) return 2;
    const auto steps = parse_integer(words[2]);
    const auto writers = parse_integer(words[3]);
    if (!steps || !writers) return 2;
    try {
        const auto files = state::make_file_system();
        const std::string path =
            state::write_sample_state(*files, words[1], static_cast<std::int32_t>(*steps),
                                      static_cast<std::int32_t>(*writers));
        const state::Verified verified = state::verify_state(files, path);
        for (const state::Fault& fault : verified.faults) {
            std::printf("%s: %s: %s\n", fault.file.c_str(), fault.place.c_str(),
                        fault.reason.c_str());
        }
        std::printf("%s\n%s\n", path.c_str(), verified.weights.c_str());
        return verified.faults.empty() ? 0 : 1;
    } catch (const std::exception& error) {
        std::printf("%s\n", error.what());
        return 1;
    }
}
