// Detects from the environment of a launcher how this process was started.
#include "terrace/comm/launcher.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/comm/mpi/mpi.h"

namespace terrace::comm {
namespace {

using Environment = std::map<std::string, std::string>;

int64_t processes_in(const Environment& environment) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_SIZE",
                           "PALS_RANKID", "SLURM_STEP_NUM_TASKS"}) {
    unsetenv(name);
  }
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  return launched_processes();
}

TEST(Launcher, FindsTheLauncherInTheEnvironment) {
  EXPECT_EQ(processes_in({}), 1);
  EXPECT_FALSE(started_by_mpi());
  EXPECT_EQ(processes_in({{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "2"}}), 4);
  EXPECT_TRUE(started_by_mpi());
  EXPECT_EQ(processes_in({{"PMI_SIZE", "3"}, {"PMI_RANK", "0"}}), 3);
  EXPECT_EQ(processes_in({{"SLURM_STEP_NUM_TASKS", "8"}, {"PMIX_RANK", "7"}}), 8);
  EXPECT_EQ(processes_in({{"PALS_RANKID", "1"}}), 0);
  EXPECT_TRUE(started_by_mpi());
}

TEST(Launcher, SaysWhichRankAProcessIs) {
  for (const char* name :
       {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "PALS_RANKID", "SLURM_PROCID"}) {
    unsetenv(name);
  }
  EXPECT_EQ(launched_rank(), 0);
  setenv("SLURM_PROCID", "0", 1);
  EXPECT_EQ(launched_rank(), 0);
  setenv("SLURM_PROCID", "5", 1);
  EXPECT_EQ(launched_rank(), 5);
  // mpirun inside of a job's first task.
  setenv("OMPI_COMM_WORLD_RANK", "2", 1);
  EXPECT_EQ(launched_rank(), 2);
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}) unsetenv(name);
}

TEST(Launcher, OneProcessIsNoMpiRun) {
  EXPECT_EQ(processes_in({{"SLURM_STEP_NUM_TASKS", "1"}, {"PMIX_RANK", "0"}}), 1);
  EXPECT_FALSE(started_by_mpi());
}

TEST(Launcher, InnerLauncherCountsInsideASlurmStep) {
  EXPECT_EQ(processes_in({{"OMPI_COMM_WORLD_SIZE", "2"}, {"SLURM_STEP_NUM_TASKS", "1"}}), 2);
}

TEST(Mpi, RefusedWithTheWayOutInABuildWithoutMpi) {
  if (made_with_mpi()) GTEST_SKIP() << "this build has MPI";
  try {
    make_mpi_world({});
    ADD_FAILURE() << "not refused";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("--ranks"), std::string::npos);
  }
}

}  // namespace
}  // namespace terrace::comm
