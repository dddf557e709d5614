// world_test CASE FOLDER [SEED]: one rank of one case of world_test.py, which judges by what the
// ranks leave in FOLDER: `saw.RANK` has what a rank learned, `victim.RANK` the process id of one
// that was about to die or to be stopped. Exit codes say nothing here.
#include <cstdio>

#include "world_rank.hpp"

using namespace rhizome;
using namespace rhizome::world;

namespace {

/// What a rank is told that was started without fault tolerance.
void no_fault_tolerance(const std::filesystem::path& folder) {
    Pulse pulse;
    std::string told = "nothing";
    try {
        (void)make_mpi_world({.pulse = pulse});
    } catch (const ConfigError& error) {
        told = error.what();
    }
    write_whole(folder / "saw.0", told);
    leave_mpi(ExitCode::bad_config);
}

Case find_case(const std::string& name) {
    auto cases = calm_cases();
    cases.merge(loss_cases());
    return cases.at(name);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: world_test CASE FOLDER [SEED]\n");
        return 2;
    }
    const std::string name = argv[1];
    if (name == "no_fault_tolerance") no_fault_tolerance(argv[2]);
    try {
        Pulse pulse;
        const std::int32_t spares = name == "renewals" ? 1 : name == "loss_in_renewal" ? 5 : 31;
        const auto world =
            make_mpi_world({.pulse = pulse, .spares = spares, .piece_bytes = 100'000});
        Rank rank{*world, argv[2], argc > 3 ? std::stoull(argv[3]) : 0};
        find_case(name)(rank);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "world_test: %s: %s\n", name.c_str(), error.what());
    }
    leave_mpi(ExitCode::our_fault);
}
