// Tests which limit of a machine holds for a job, with those that OLCF states for Frontier.
#include "terrace/launch/time_limit.h"

#include <gtest/gtest.h>

#include "terrace/base/error.h"

namespace terrace::launch {
namespace {

machine::Machine frontier(const std::string& partition = "batch") {
  machine::Machine machine = machine::load("frontier");
  machine.launch.partition = partition;
  return machine;
}

double allowed_hours(const machine::Machine& machine, int64_t nodes) {
  return allowed_time(machine, nodes).seconds / 3600;
}

TEST(TimeLimit, OfFrontierGrowsWithTheNodesOfAJob) {
  for (const int64_t nodes : {1, 2, 91}) EXPECT_EQ(allowed_hours(frontier(), nodes), 2) << nodes;
  for (const int64_t nodes : {92, 183}) EXPECT_EQ(allowed_hours(frontier(), nodes), 6) << nodes;
  for (const int64_t nodes : {184, 1881, 1882, 9408}) EXPECT_EQ(allowed_hours(frontier(), nodes), 12) << nodes;
  EXPECT_EQ(allowed_time(frontier(), 100).jobs, "jobs of 92 to 183 nodes in partition batch of frontier");
}

TEST(TimeLimit, IsThatOfThePartition) {
  EXPECT_EQ(allowed_hours(frontier("extended"), 64), 24);
  try {
    allowed_time(frontier("extended"), 65);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(
        error.what(),
        "jobs in partition extended of frontier have at most 64 nodes ([launch] longest_times), and --nodes is "
        "65; use fewer, or --partition batch, in which jobs of 1 to 91 nodes may take 02:00:00");
  }
  EXPECT_EQ(allowed_hours(frontier("other"), 9408), 0);  // not stated
}

TEST(TimeLimit, WithoutLimitsByNodesIsOneForAllJobs) {
  const machine::Machine lumi = machine::load("lumi");
  EXPECT_EQ(allowed_hours(lumi, 1), 48);
  EXPECT_EQ(allowed_hours(lumi, 2978), 48);
  EXPECT_EQ(allowed_hours(machine::load("dgx-h100"), 1), 0);
  EXPECT_EQ(partition_for(lumi, 1, 3600), "");
}

TEST(TimeLimit, NamesAPartitionThatTakesALongerJob) {
  EXPECT_EQ(partition_for(frontier(), 64, 24 * 3600.0),
            ", or --partition extended, in which jobs of 1 to 64 nodes may take 1-00:00:00");
  EXPECT_EQ(partition_for(frontier(), 65, 24 * 3600.0), "");
  EXPECT_EQ(partition_for(frontier(), 64, 25 * 3600.0), "");
}

}  // namespace
}  // namespace terrace::launch
