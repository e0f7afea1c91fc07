// Machines that are not Frontier get no advice for it: workstations, nodes with GPUs of NVIDIA, and this machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/system/core_list.h"
#include "terrace/comm/threads/threads.h"
#include "terrace/doctor/checks.h"
#include "terrace/doctor/gather.h"
#include "tests/doctor/faked_nodes.h"

namespace terrace::doctor {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// The processor of the workstation draws, and its card computes; this program was built without the card.
TEST(DoctorElsewhere, AWorkstationIsClean) {
  FakedNode node;
  write_workstation(node);
  add_gpu(node, "0000:01:00.0", "0x10de", "0x030000", -1);
  add_gpu(node, "0000:0a:00.0", "0x1002", "0x038000", -1, "536870912");
  node.write("/sys/class/kfd/kfd/topology/nodes/1/properties",
             "simd_count 8\nlocation_id 2560\ngfx_target_version 90012\n");
  const Readings readings = node.read(0, "/ada/run");
  ASSERT_THAT(readings.gpus, SizeIs(1));
  EXPECT_EQ(readings.gpus[0].vendor, "NVIDIA");
  const Diagnosis diagnosis = diagnose({readings});
  for (const std::string check : {"near cores", "run folder"}) EXPECT_THAT(diagnosis.checks, testing::Contains(check));
  EXPECT_THAT(diagnosis.findings, SizeIs(0)) << text_of(diagnosis);
}

TEST(DoctorElsewhere, AWorkstationWithoutGpusIsClean) {
  FakedNode node;
  write_workstation(node);
  const Diagnosis diagnosis = diagnose({node.read(0)});
  EXPECT_THAT(diagnosis.findings, SizeIs(0)) << text_of(diagnosis);
  EXPECT_THAT(diagnosis.checks, ElementsAre("near cores"));
  EXPECT_THAT(diagnosis.not_applicable, SizeIs(checks().size() - 1));
}

// mpirun binds each of two ranks to a core of its own without an option that forbids it.
TEST(DoctorElsewhere, RanksOnOneCoreEach) {
  FakedNode nodes[2];
  JobReadings job;
  for (int rank = 0; rank < 2; ++rank) {
    write_workstation(nodes[rank]);
    nodes[rank].set_cores(std::to_string(rank));
    job.push_back(nodes[rank].read(rank));
  }
  const Diagnosis diagnosis = diagnose(job);
  ASSERT_THAT(diagnosis.findings, SizeIs(1)) << text_of(diagnosis);
  EXPECT_EQ(diagnosis.findings[0].check, "near cores");
  EXPECT_THAT(diagnosis.findings[0].found, HasSubstr("rank 1 on desk: one core, 1, of 16"));
  EXPECT_THAT(diagnosis.findings[0].fix, HasSubstr("mpirun --bind-to none"));
  // Where the job has two cores, that is what two ranks get.
  for (Readings& rank : job) rank.job_cores = "0-1";
  EXPECT_THAT(diagnose(job).findings, SizeIs(0));
  for (Readings& rank : job) rank.job_cores = "0-15", rank.quota = 2.5;
  EXPECT_THAT(diagnose(job).findings, SizeIs(0));
}

// Two ranks of a node with two GPUs of NVIDIA on two NUMA domains and InfiniBand, in a job of two nodes.
struct NvidiaNode {
  NvidiaNode() {
    for (int rank = 0; rank < 2; ++rank) {
      FakedNode& node = ranks[rank];
      write_workstation(node);
      node.write("/sys/devices/system/cpu/online", "0-31\n");
      node.write("/sys/devices/system/node/node1/cpulist", "16-31\n");
      add_gpu(node, "0000:1b:00.0", "0x10de", "0x030200", 0);
      add_gpu(node, "0000:ca:00.0", "0x10de", "0x030200", 1);
      node.write("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
      node.set_limits("65536", "unlimited");
      node.set_cores(rank == 0 ? "0-15" : "16-31");
      node.view.gpus = std::vector<std::string>{rank == 0 ? "0000:1b:00.0" : "0000:ca:00.0"};
      node.view.environment["SLURM_JOB_ID"] = "5";
      node.view.environment["SLURM_JOB_NUM_NODES"] = "2";
    }
  }
  std::vector<Finding> findings() const { return diagnose({ranks[0].read(0), ranks[1].read(1)}).findings; }
  FakedNode ranks[2];
};

// NVIDIA's driver is that of the kernel, or a newer one for programs alone.
TEST(DoctorElsewhere, ADriverThatIsTooOldForTheProgram) {
  NvidiaNode node;
  const auto set = [&](const std::string& driver, const std::string& libraries) {
    for (FakedNode& rank : node.ranks) {
      rank.write("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  " + driver +
                                                    "  Sun Jul 27 07:17:32 UTC 2025\n" +
                                                    "GCC version:  gcc version 12.2.0\n");
      std::string maps;
      std::istringstream names(libraries);
      for (std::string name; names >> name;) maps += "7f00-7f01 r-xp 00000000 08:01 5 /lib/" + name + "\n";
      rank.write("/proc/self/maps", maps);
    }
  };
  const auto found = [&] { return node.findings().empty() ? std::string() : node.findings()[0].found; };
  set("535.161.08", "libcudart.so.13");
  EXPECT_THAT(found(), HasSubstr("all 2 ranks on desk: driver 535.161.08, and CUDA 13 needs 580.65.06 or later"));
  EXPECT_EQ(node.findings()[0].check, "driver");
  set("580.65.06", "libcudart.so.13.0.96");
  EXPECT_EQ(found(), "");
  set("580.65.05", "libcudart.so.13.0.96");
  EXPECT_THAT(found(), HasSubstr("driver 580.65.05, and CUDA 13"));
  set("535.161.08", "libcudart.so.12");
  EXPECT_EQ(found(), "");
  set("470.256.02", "libcudart.so.12 libcuda.so.470.256.02");
  EXPECT_THAT(found(), HasSubstr("driver 470.256.02, and CUDA 12 needs 525.60.13 or later"));
  set("535.161.08", "libcudart.so.13 libcuda.so.580.82.07");  // of a package for forward compatibility
  EXPECT_EQ(found(), "");
  set("470.256.02", "");
  EXPECT_EQ(found(), "");
  set("470.256.02", "libcudart.so.13 libtorch_cpu.so");  // a build without CUDA, of which torch has a part
  EXPECT_EQ(found(), "");
  set("470.256.02", "libcudart.so.13 libtorch_cpu.so libtorch_cuda.so");
  EXPECT_THAT(found(), HasSubstr("driver 470.256.02, and CUDA 13"));
}

TEST(DoctorElsewhere, InfiniBandThatNcclMayNotUse) {
  NvidiaNode node;
  for (FakedNode& rank : node.ranks) rank.view.environment["NCCL_IB_DISABLE"] = "1";
  ASSERT_THAT(node.findings(), SizeIs(1));
  EXPECT_EQ(node.findings()[0].check, "ways of NCCL");
  EXPECT_EQ(node.findings()[0].severity, Severity::error);
  EXPECT_THAT(node.findings()[0].found, HasSubstr("all 2 ranks on desk: NCCL_IB_DISABLE=1"));
  EXPECT_EQ(node.findings()[0].fix, "unset NCCL_IB_DISABLE");
  for (FakedNode& rank : node.ranks) rank.view.environment["SLURM_JOB_NUM_NODES"] = "1";
  EXPECT_THAT(node.findings(), SizeIs(0));  // one node needs no InfiniBand
}

TEST(DoctorElsewhere, ErrorsOfMemoryThatNvidiaCounts) {
  NvidiaNode node;
  for (FakedNode& rank : node.ranks) {
    rank.view.nvidia_errors = [] { return "00000000:1B:00.0, 3, 0\n00000000:CA:00.0, 0, 4\n"; };
  }
  ASSERT_THAT(node.findings(), SizeIs(1));
  EXPECT_THAT(node.findings()[0].found, HasSubstr("rank 1 on desk: GPU 0000:ca:00.0 has had 4 errors that were not"));
  for (FakedNode& rank : node.ranks) {
    rank.view.nvidia_errors = [] { return "00000000:1B:00.0, [N/A], [N/A]\nNo devices were found\n"; };
  }
  EXPECT_THAT(node.findings(), SizeIs(0));
}

TEST(DoctorElsewhere, NodesWithGpusOfNvidia) {
  EXPECT_THAT(NvidiaNode().findings(), SizeIs(0));
  const Diagnosis diagnosis = diagnose({NvidiaNode().ranks[0].read(0)});
  std::set<std::string> left_out;
  for (const auto& [check, reason] : diagnosis.not_applicable) left_out.insert(check);
  for (const std::string check :
       {"pairs", "rendezvous", "cache monitor", "code object", "memory", "caches", "node disk"}) {
    EXPECT_THAT(left_out, testing::Contains(check));
  }
  NvidiaNode bound;  // by a step of Slurm without --cpus-per-task, which has no other cores
  bound.ranks[0].set_cores("3");
  bound.ranks[0].view.job_cores = cores_of_list("3,19");
  ASSERT_THAT(bound.findings(), SizeIs(1));
  EXPECT_THAT(bound.findings()[0].found, HasSubstr("rank 0 on desk: one core, 3, of 32 on the node for 2 ranks"));
  EXPECT_THAT(bound.findings()[0].fix, HasSubstr("srun -c 16 "));
  NvidiaNode far;
  far.ranks[0].view.gpus = far.ranks[1].view.gpus;
  far.ranks[1].view.gpus = std::vector<std::string>{"0000:1b:00.0"};
  ASSERT_THAT(far.findings(), SizeIs(1));
  EXPECT_THAT(far.findings()[0].found,
              HasSubstr("rank 1 on desk: cores 16-31 on NUMA 1, while GPU 0000:1b:00.0 is on NUMA 0"));
  NvidiaNode shared;
  shared.ranks[1].view.gpus = shared.ranks[0].view.gpus;
  shared.ranks[1].set_cores("0-15");
  ASSERT_THAT(shared.findings(), SizeIs(1));
  EXPECT_EQ(shared.findings()[0].check, "one device");
  NvidiaNode sockets;
  for (FakedNode& rank : sockets.ranks) rank.view.environment["NCCL_NET"] = "Socket";
  ASSERT_THAT(sockets.findings(), SizeIs(1));
  EXPECT_THAT(sockets.findings()[0].fix, HasSubstr("export NCCL_NET=IB"));
  NvidiaNode locked;
  locked.ranks[1].set_limits("65536", "65536");
  ASSERT_THAT(locked.findings(), SizeIs(1));
  EXPECT_EQ(locked.findings()[0].check, "limits");
  NvidiaNode without_kernels;
  for (FakedNode& rank : without_kernels.ranks) rank.view.gpus.reset();
  ASSERT_THAT(without_kernels.findings(), SizeIs(1));
  EXPECT_THAT(without_kernels.findings()[0].found,
              HasSubstr("the program has no kernels for GPUs of NVIDIA, and the node has 2"));
  EXPECT_THAT(without_kernels.findings()[0].fix, HasSubstr("build terrace with CUDA"));
}

// A node of a larger job, on which nobody started the others.
TEST(DoctorElsewhere, SaysWhichNodesWereNotLookedAt) {
  const Diagnosis diagnosis = diagnose({NvidiaNode().ranks[0].read(0)});
  EXPECT_EQ(diagnosis.nodes, 2);
  EXPECT_EQ(diagnosis.nodes_read, 1);
  EXPECT_THAT(text_of(diagnosis), HasSubstr("\nonly 1 of the job's 2 nodes was looked at: "));
}

// Whatever it finds here, nothing of it is about devices that this machine does not have.
TEST(DoctorElsewhere, ThisMachine) {
  const Readings readings = read_node(this_node(true), {});
  EXPECT_EQ(cores_of_list(readings.cores), core_mask());
  EXPECT_NE(readings.host, "this machine");
  EXPECT_TRUE(readings.files.contains("the program"));
  EXPECT_THAT(readings.files.at("the program"), HasSubstr("bytes, "));
  const Diagnosis diagnosis = diagnose({readings});
  EXPECT_THAT(diagnosis.checks, testing::Contains("near cores"));
  if (!has_amd_gpus({readings})) {
    for (const std::string check : {"pairs", "code object", "caches"}) {
      EXPECT_THAT(diagnosis.checks, testing::Not(testing::Contains(check)));
    }
  }
  EXPECT_THROW(node_below("/etc"), UserError);
}

TEST(DoctorElsewhere, RanksBringTheirReadingsTogether) {
  FrontierJob job;
  job[2].write("/opt/rocm/lib/librccl.so.1", "another");
  job.ranks.resize(4);
  std::vector<Diagnosis> all(4);
  comm::run_threads(4, {}, [&](comm::World& world) {
    const auto group = world.connect(mesh::all_ranks("doctor", 4));
    const auto rank = static_cast<size_t>(world.rank());
    all[rank] = diagnose_together(*group, job[rank].read(world.rank(), job.run_folder));
  });
  ASSERT_THAT(all[0].findings, SizeIs(1)) << text_of(all[0]);
  EXPECT_THAT(all[0].findings[0].found, HasSubstr("rank 2 on frontier00001: librccl.so.1 is 7 bytes"));
  EXPECT_EQ(all[0].findings, job.diagnose().findings);
  for (const size_t rank : {1, 2, 3}) EXPECT_THAT(all[rank].findings, ElementsAre(Finding{}));
}

// Three nodes of two ranks, the way in which a run of thousands of ranks starts.
TEST(DoctorElsewhere, EachNodeJudgesItsOwnRanks) {
  FrontierJob job;
  job.ranks.resize(6);
  job.on_all([](FakedNode& node) { node.view.environment["NCCL_NET_PLUGIN"] = "/opt/plug-in/librccl-net.so"; });
  job[3].view.environment["FI_MR_CACHE_MONITOR"] = "memhooks";
  job[4].view.environment["FI_MR_CACHE_MONITOR"] = "memhooks";
  job[5].write("/opt/rocm/lib/librccl.so.1", "another");
  std::vector<Diagnosis> all(6);
  comm::run_threads(6, {}, [&](comm::World& world) {
    const auto rank = static_cast<size_t>(world.rank());
    all[rank] = diagnose_by_node(world, 2, job[rank].read(world.rank(), job.run_folder));
  });
  const std::vector<Finding>& found = all[0].findings;
  ASSERT_THAT(found, SizeIs(2)) << text_of(all[0]);
  EXPECT_EQ(found[0].check, "cache monitor");
  EXPECT_EQ(found[0].found, "rank 3 on frontier00001: FI_MR_CACHE_MONITOR=memhooks; and 1 node more");
  EXPECT_EQ(found[1].check, "versions");
  EXPECT_THAT(found[1].found, HasSubstr("rank 5 on frontier00001: librccl.so.1 is 7 bytes"));
  EXPECT_EQ(all[0].nodes, 3);
  for (const Diagnosis& one : all) EXPECT_EQ(one.findings, found);
  // A node whose ranks agree with each other and not with the first node.
  job[3].view.environment["FI_MR_CACHE_MONITOR"] = job[4].view.environment["FI_MR_CACHE_MONITOR"] = "kdreg2";
  job[4].write("/opt/rocm/lib/librccl.so.1", "another");
  comm::run_threads(6, {}, [&](comm::World& world) {
    const auto rank = static_cast<size_t>(world.rank());
    all[rank] = diagnose_by_node(world, 2, job[rank].read(world.rank(), job.run_folder));
  });
  ASSERT_THAT(all[0].findings, SizeIs(1)) << text_of(all[0]);
  EXPECT_THAT(all[0].findings[0].found,
              HasSubstr("ranks 4 and 5 have programs or libraries other than those of rank 0"));
}

}  // namespace
}  // namespace terrace::doctor
