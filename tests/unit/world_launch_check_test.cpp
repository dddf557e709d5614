#include "world/launch_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "core/error.hpp"

namespace rhizome::world {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Optional;

Variable variables(std::map<std::string, std::string> values) {
    return [values = std::move(values)](const std::string& name) -> std::optional<std::string> {
        const auto found = values.find(name);
        return found == values.end() ? std::nullopt : std::optional{found->second};
    };
}

const std::map<std::string, std::string> by_mpi{{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "job@1"}};

Variable by_mpi_with(std::map<std::string, std::string> values) {
    values.insert(by_mpi.begin(), by_mpi.end());
    return variables(std::move(values));
}

TEST(LaunchedByMpi, WantsARankAndItsNamespace) {
    EXPECT_TRUE(launched_by_mpi(variables(by_mpi)));
    EXPECT_FALSE(launched_by_mpi(variables({})));
    EXPECT_FALSE(launched_by_mpi(variables({{"PMIX_RANK", "0"}})));
    EXPECT_FALSE(launched_by_mpi(variables({{"PMIX_NAMESPACE", "job@1"}})));
}

TEST(CheckLaunch, HasNothingToSayWhereAllAgree) {
    EXPECT_EQ(check_launch(variables({}), 1), std::nullopt);
    EXPECT_EQ(check_launch(variables({{"SLURM_NTASKS", "1"}}), 1), std::nullopt);
    EXPECT_EQ(check_launch(by_mpi_with({{"OMPI_COMM_WORLD_SIZE", "8"}}), 8), std::nullopt);
    EXPECT_EQ(check_launch(by_mpi_with({{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_NTASKS", "8"}}), 8),
              std::nullopt);
}

TEST(CheckLaunch, StopsAProcessThatWasNotMeantToBeAlone) {
    for (const std::string name :
         {"SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE"}) {
        try {
            (void)check_launch(variables({{name, "8"}}), 1);
            ADD_FAILURE() << name;
        } catch (const ConfigError& error) {
            EXPECT_THAT(error.what(), AllOf(HasSubstr(name + "=8 ("), HasSubstr("rhizome run"),
                                            HasSubstr("srun --mpi=pmix")));
        }
    }
}

TEST(CheckLaunch, WarnsOfANumberThatMpiContradicts) {
    EXPECT_THAT(check_launch(by_mpi_with({{"SLURM_NTASKS", "8"}}), 4),
                Optional(AllOf(HasSubstr("SLURM_NTASKS=8"), HasSubstr("4 workers"))));
    EXPECT_THAT(check_launch(by_mpi_with({{"OMPI_COMM_WORLD_SIZE", "4"}}), 1),
                Optional(HasSubstr("OMPI_COMM_WORLD_SIZE=4")));
    EXPECT_THAT(check_launch(variables({{"PMI_SIZE", "0"}}), 1), Optional(HasSubstr("PMI_SIZE=0")));
}

TEST(CheckLaunch, BelievesTheNearestLauncher) {
    // mpirun in an allocation of eight tasks, its daemons one task per node.
    EXPECT_EQ(check_launch(by_mpi_with({{"OMPI_COMM_WORLD_SIZE", "4"},
                                        {"SLURM_STEP_NUM_TASKS", "2"},
                                        {"SLURM_NTASKS", "8"}}),
                           4),
              std::nullopt);
    // One task of a step in a larger allocation.
    EXPECT_EQ(check_launch(variables({{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_NTASKS", "8"}}), 1),
              std::nullopt);
}

TEST(CheckLaunch, PassesOverWhatIsNoNumber) {
    EXPECT_EQ(check_launch(variables({{"SLURM_NTASKS", "many"}}), 1), std::nullopt);
    EXPECT_EQ(check_launch(variables({{"OMPI_COMM_WORLD_SIZE", ""}, {"SLURM_NTASKS", "1"}}), 1),
              std::nullopt);
}

}  // namespace
}  // namespace rhizome::world
