#include "world/launch_check.hpp"

#include <array>

#include "core/error.hpp"
#include "core/text.hpp"

namespace rhizome::world {
namespace {

struct Claim {
    std::string name;
    std::int64_t tasks;
};

/// The nearest launcher's: mpirun inside a Slurm step starts other processes than the step's.
std::optional<Claim> nearest_claim(const Variable& variable) {
    static const std::array<std::string, 4> nearest_first{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                                          "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"};
    for (const std::string& name : nearest_first) {
        if (const auto value = variable(name)) {
            if (const auto tasks = parse_integer(*value)) return Claim{name, *tasks};
        }
    }
    return std::nullopt;
}

}  // namespace

bool launched_by_mpi(const Variable& variable) {
    return variable("PMIX_RANK").has_value() && variable("PMIX_NAMESPACE").has_value();
}

std::optional<std::string> check_launch(const Variable& variable, std::int32_t workers) {
    const auto claim = nearest_claim(variable);
    if (!claim || claim->tasks == workers) return std::nullopt;
    const std::string said = claim->name + "=" + std::to_string(claim->tasks);
    if (workers == 1 && claim->tasks > 1 && !launched_by_mpi(variable)) {
        throw ConfigError{said +
                          " (but MPI does not connect this process with others), start with "
                          "`rhizome run` or `srun --mpi=pmix`"};
    }
    return said + " does not fit the " + std::to_string(workers) +
           " workers that MPI started, and is ignored";
}

}  // namespace rhizome::world
