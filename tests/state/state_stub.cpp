// Writes, checks and seals states for the tests in Python.
//
//   state_stub write FOLDER STEPS WRITERS   one of tests/support/sample_state.hpp
//   state_stub verify STATE                 a line for each fault; exit status 1 if there are any
//   state_stub seal FILE                    a share's header for what is now in it
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>

#include "core/digest.hpp"
#include "core/text.hpp"
#include "state/file_header.hpp"
#include "support/sample_state.hpp"

namespace {

using namespace rhizome;

int verify(const std::string& path) {
    const state::Verified verified = state::verify_state(state::make_file_system(), path);
    for (const state::Fault& fault : verified.faults) {
        std::printf("%s: %s: %s\n", fault.file.c_str(), fault.place.c_str(), fault.reason.c_str());
    }
    std::printf("weights %s\n", verified.weights.c_str());
    return verified.faults.empty() ? 0 : 1;
}

int write(const std::string& folder, std::int32_t steps, std::int32_t writers) {
    const auto files = state::make_file_system();
    std::printf("%s\n", state::write_sample_state(*files, folder, steps, writers).c_str());
    return 0;
}

/// All of the file is structure then, whatever was done to it: that is what its reader is told.
int seal(const std::string& path) {
    std::string bytes(std::filesystem::file_size(path), '\0');
    std::ifstream{path, std::ios::binary}.read(bytes.data(),
                                               static_cast<std::streamsize>(bytes.size()));
    state::FileHeader header =
        state::parse_header(bytes.substr(0, state::header_bytes), state::FileKind::share, path);
    header.bytes = static_cast<std::int64_t>(bytes.size());
    header.structure = header.bytes;
    Digest digest;
    digest.add(std::as_bytes(std::span{bytes}).subspan(state::header_bytes));
    header.digest = digest.hex();
    bytes.replace(0, state::header_bytes, state::text_of(header));
    std::ofstream{path, std::ios::binary} << bytes;
    return 0;
}

}  // namespace

int main(int count, char** words) {
    try {
        const std::string word = count > 1 ? words[1] : "";
        if (word == "verify" && count == 3) return verify(words[2]);
        if (word == "seal" && count == 3) return seal(words[2]);
        const auto steps = parse_integer(count == 5 ? words[3] : "");
        const auto writers = parse_integer(count == 5 ? words[4] : "");
        if (word != "write" || !steps || !writers) return 2;
        return write(words[2], static_cast<std::int32_t>(*steps),
                     static_cast<std::int32_t>(*writers));
    } catch (const std::exception& error) {
        std::printf("%s\n", error.what());
        return 1;
    }
}
