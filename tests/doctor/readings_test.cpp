// Tests what the readers make of the kernel's files.
#include "terrace/doctor/readings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/doctor/faked_nodes.h"

namespace terrace::doctor {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

TEST(Readings, GpusThatAProcessCanUse) {
  FrontierJob job;
  FakedNode& node = job[0];
  const auto used = [&] { return node.read(0).used_gpus; };
  EXPECT_THAT(used(), ElementsAre("0000:d1:00.0"));
  auto& environment = node.view.environment;
  // HIP counts what is left below it, and lists give an order.
  environment["ROCR_VISIBLE_DEVICES"] = "6,0,3";
  environment["HIP_VISIBLE_DEVICES"] = "2, 0";
  EXPECT_THAT(used(), ElementsAre("0000:ce:00.0", "0000:d9:00.0"));
  environment.erase("HIP_VISIBLE_DEVICES");
  environment["CUDA_VISIBLE_DEVICES"] = "1";
  EXPECT_THAT(used(), ElementsAre("0000:c1:00.0"));
  environment.erase("CUDA_VISIBLE_DEVICES");
  environment["ROCR_VISIBLE_DEVICES"] = "GPU-000000000000abc5,8,1";
  EXPECT_THAT(used(), ElementsAre("0000:d6:00.0"));
  environment.erase("ROCR_VISIBLE_DEVICES");
  EXPECT_EQ(used().size(), 8U);
  // Control groups of Slurm leave one: the files of the others cannot be read.
  for (int die = 0; die < 7; ++die) {
    node.write("/sys/class/kfd/kfd/topology/nodes/" + std::to_string(4 + die) + "/properties", "");
  }
  EXPECT_THAT(used(), ElementsAre("0000:de:00.0"));
  EXPECT_EQ(node.read(0).gpus.size(), 8U);
  EXPECT_THAT(read_node(node.view, {.uses_gpus = false}).gpus, SizeIs(0));
  node.remove("/sys/class/kfd");
  EXPECT_FALSE(node.read(0).knows_used_gpus);
}

TEST(Readings, FileSystemsByTheNearestMountPoint) {
  FakedNode node;
  node.write("/proc/self/mountinfo",
             "1 0 0:1 / / rw - ext4 /dev/sda rw\n"
             "2 1 0:2 / /data rw shared:1 master:2 - nfs4 server:/ rw\n"
             "3 2 0:3 / /data/my\\040runs rw - lustre mds rw\n"
             "4 1 0:4 / /over rw - nfs old rw\n"
             "5 1 0:5 / /over rw - xfs covering rw\n"
             "a line that is cut off\n");
  EXPECT_EQ(node.view.file_system("/data/run"), "nfs4");
  EXPECT_EQ(node.view.file_system("/data"), "nfs4");
  EXPECT_EQ(node.view.file_system("/database"), "ext4");
  EXPECT_EQ(node.view.file_system("/data/my runs/7"), "lustre");
  EXPECT_EQ(node.view.file_system("/data/my runs/../7"), "nfs4");
  EXPECT_EQ(node.view.file_system("/over/it"), "xfs");
  EXPECT_EQ(FakedNode().view.file_system("/data"), "");
}

TEST(Readings, CoresOfNodesAndRegions) {
  FrontierJob job;
  const Readings readings = job[3].read(3);
  EXPECT_EQ(readings.cores, "25-31");
  EXPECT_THAT(readings.first_cores, ElementsAre(0, 8, 16, 24, 32, 40, 48, 56));
  EXPECT_EQ(readings.numa_of_cores.at("48-63,112-127"), 3);
  EXPECT_EQ(readings.job_cores, "0-127");
  EXPECT_THAT(readings.targets, ElementsAre("gfx90a"));
}

// A large file's first and last MiB are read at the start of a run; its length counts all the same.
TEST(Readings, ChecksumsOfWholeFilesAndOfTheirEnds) {
  FakedNode node;
  std::string program(5 << 20, 'x');
  const auto digest = [&](bool whole) {
    node.set_program(program);
    return read_node(node.view, {.whole_files = whole}).files.at("the program");
  };
  const std::string whole = digest(true), ends = digest(false);
  program[2 << 20] = 'y';
  EXPECT_NE(digest(true), whole);
  EXPECT_EQ(digest(false), ends);
  program.back() = 'y';
  EXPECT_NE(digest(false), ends);
}

TEST(Readings, TextGivesTheSameReadings) {
  FrontierJob job;
  const Readings readings = job[1].read(1, job.run_folder);
  const std::string text = text_of(readings);
  EXPECT_EQ(text_of(readings_of(text)), text);
  EXPECT_EQ(readings_of(text).gpus.size(), 8U);
}

TEST(Readings, ANodeWithoutFilesIsNoError) {
  FakedNode node;
  const Readings readings = node.read(0, "/run");
  EXPECT_THAT(readings.gpus, SizeIs(0));
  EXPECT_EQ(readings.open_files, unknown);
  EXPECT_EQ(readings.seconds_left, -1);
  EXPECT_TRUE(diagnose({readings}).findings.empty());
}

}  // namespace
}  // namespace terrace::doctor
