// A clean node of Frontier gives no finding, and each row of docs/doctor.md spoiled in turn gives one, of that check.
#include "terrace/doctor/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/doctor/expect_finding.h"
#include "tests/doctor/faked_nodes.h"

namespace terrace::doctor {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// The rows that do not apply to the eight ranks of one node are the order of ranks over nodes, and those of what it
// does not use.
TEST(Doctor, ACleanNodeOfFrontierGivesNoFinding) {
  const Diagnosis diagnosis = FrontierJob().diagnose();
  EXPECT_THAT(diagnosis.findings, SizeIs(0)) << text_of(diagnosis);
  EXPECT_THAT(diagnosis.not_applicable,
              ElementsAre(testing::Pair("rank order", "all ranks are on one node"),
                          testing::Pair("GPU support of MPI",
                                        "MPICH_GPU_SUPPORT_ENABLED is not set, and this program needs none of it"),
                          testing::Pair("driver", "the program does not use CUDA")));
  EXPECT_EQ(diagnosis.checks.size(), checks().size() - 3);
  EXPECT_EQ(diagnosis.ranks, 8);
  EXPECT_EQ(diagnosis.nodes, 2);
}

TEST(Doctor, TwoRanksOnOneDieAndARankWithNone) {
  FrontierJob shared;
  shared[3].view.environment["ROCR_VISIBLE_DEVICES"] = "2";
  expect_one(shared, "one device", "rank 3 on frontier00001: has GPU 0000:c9:00.0, as rank 2 has", "--gpus-per-task=1");
  FrontierJob none;
  none[5].view.environment["ROCR_VISIBLE_DEVICES"] = "";
  expect_one(none, "one device", "rank 5 on frontier00001: can use none of the node's 8 GPUs", "--gpu-bind=closest");
}

// Rank 2 has the cores 17 to 23. In half a second another process computes for 0.45 s on one of them.
TEST(Doctor, CoresThatOtherWorkUses) {
  FrontierJob job;
  FakedNode& node = job[2];
  node.set_process("811", "python3 (x)", 1, 17, 100);
  node.view.wait_for_work = [&node] {
    node.set_busy(17, 90);
    node.set_process("811", "python3 (x)", 1, 17, 145);
    return 0.5;
  };
  expect_one(job, "shared cores",
             "rank 2 on frontier00001: other work took 1.0 of the 7 cores, most of it python3 (x) (process 811)",
             "--exclusive", Severity::warning);
}

// The rank itself and another rank of its launcher are no other work; neither is a process on another rank's cores.
TEST(Doctor, RanksOfTheLaunchAreNoOtherWork) {
  FrontierJob job;
  FakedNode& node = job[2];
  node.set_process("50", "terrace", 7, 17, 5);
  node.set_process("51", "terrace", 7, 17, 5);
  node.set_process("811", "python3", 1, 40, 5);
  node.view.wait_for_work = [&node] {
    node.set_busy(17, 90);
    node.set_process("50", "terrace", 7, 17, 30);
    node.set_process("51", "terrace", 7, 17, 30);
    node.set_process("811", "python3", 1, 40, 50);
    return 0.5;
  };
  EXPECT_THAT(job.diagnose().findings, SizeIs(0));
}

// The numbers of a second list count the GPUs that the first one leaves.
TEST(Doctor, TwoListsOfDevicesAreToBecomeOne) {
  FrontierJob job;
  for (const int rank : {0, 3}) {
    std::map<std::string, std::string>& environment = job[static_cast<size_t>(rank)].view.environment;
    environment["HIP_VISIBLE_DEVICES"] = environment["ROCR_VISIBLE_DEVICES"];
  }
  expect_one(job, "one device",
             "rank 0 on frontier00001: can use none of the node's 8 GPUs: HIP_VISIBLE_DEVICES=4 counts the GPUs that "
             "ROCR_VISIBLE_DEVICES=4 leaves",
             "unset HIP_VISIBLE_DEVICES");
  EXPECT_EQ(job.diagnose().findings[0].fix, "unset HIP_VISIBLE_DEVICES");
  set_on_all(job, "CUDA_VISIBLE_DEVICES", "7");  // HIP takes it where its own is not set
  EXPECT_EQ(job.diagnose().findings[0].fix, "unset CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES");
  // The fix leaves nothing to be found; a second list that names the same GPU is none of it.
  unset_on_all(job, "CUDA_VISIBLE_DEVICES");
  set_on_all(job, "HIP_VISIBLE_DEVICES", "0");
  EXPECT_THAT(job.diagnose().findings, SizeIs(0));
  FrontierJob unbound;
  unset_on_all(unbound, "ROCR_VISIBLE_DEVICES");
  set_on_all(unbound, "HIP_VISIBLE_DEVICES", "4");
  const Diagnosis diagnosis = unbound.diagnose();
  ASSERT_FALSE(diagnosis.findings.empty());
  EXPECT_THAT(diagnosis.findings[0].found, HasSubstr("as rank 0 has: HIP_VISIBLE_DEVICES=4"));
  EXPECT_EQ(diagnosis.findings[0].fix, "unset HIP_VISIBLE_DEVICES, and srun --gpus-per-task=1 --gpu-bind=closest");
}

// The binding of LUMI: local rank i has die i, and the cores follow the dies.
TEST(Doctor, RanksInTheOrderOfTheDiesAreCleanToo) {
  FrontierJob job;
  for (size_t rank = 0; rank < 8; ++rank) {
    const int die = FrontierJob::places[rank].die;
    job[static_cast<size_t>(die)].set_cores(fmt::format("{}-{}", 8 * rank + 1, 8 * rank + 7));
    job[rank].view.environment["ROCR_VISIBLE_DEVICES"] = std::to_string(rank);
  }
  EXPECT_THAT(job.diagnose().findings, SizeIs(0));
}

// All dies visible and cores in their own order: rank 0 takes die 0, which is at the far end of the node.
TEST(Doctor, CoresFarFromTheDieOneCoreAndCoresOfTheSystem) {
  FrontierJob far;
  unset_on_all(far, "ROCR_VISIBLE_DEVICES");
  const Diagnosis diagnosis = far.diagnose();
  ASSERT_THAT(diagnosis.findings, SizeIs(1)) << text_of(diagnosis);
  EXPECT_EQ(diagnosis.findings[0].check, "near cores");
  EXPECT_THAT(
      diagnosis.findings[0].found,
      AllOf(HasSubstr("rank 0 on frontier00001: cores 1-7 on NUMA 0, while GPU 0000:c1:00.0 is on NUMA 3, next to "
                      "cores 48-63,112-127"),
            HasSubstr("and 2 ranks more like these")));

  FrontierJob single;
  single[1].set_cores("9");
  expect_one(single, "near cores", "rank 1 on frontier00001: one core, 9, of 128", "srun -c 7 --gpus-per-task=1");
  FrontierJob first;
  first[4].set_cores("32-39");
  expect_one(first, "near cores", "rank 4 on frontier00001: cores 32-39 hold core 32", "-S 8", Severity::warning);
  FrontierJob spread;
  spread[0].set_cores("1-7,17-23");
  EXPECT_THAT(spread.diagnose().findings, SizeIs(0));
  spread[0].view.environment["MPICH_OFI_NIC_POLICY"] = "NUMA";
  expect_one(spread, "near cores", "cores 1-7,17-23 on NUMA 0,1 with MPICH_OFI_NIC_POLICY=NUMA", "srun -c ");
}

TEST(Doctor, NeighboursOnTwoGpus) {
  FrontierJob job;
  std::swap(job.ranks[1], job.ranks[3]);
  expect_one(job, "pairs", "rank 1 on frontier00001: die 0000:ce:00.0 and die 0000:d1:00.0 of rank 0 are of two GPUs",
             "--gpu-bind=closest", Severity::warning);
}

TEST(Doctor, RanksOfANodeApart) {
  FrontierJob job;
  for (const size_t rank : {4, 5}) job[rank].write("/proc/sys/kernel/hostname", "frontier00002\n");
  const Diagnosis diagnosis = job.diagnose();
  ASSERT_THAT(diagnosis.findings, SizeIs(1)) << text_of(diagnosis);
  EXPECT_EQ(diagnosis.findings[0].check, "rank order");
  EXPECT_THAT(diagnosis.findings[0].found, HasSubstr("rank 6 on frontier00001: is apart"));
  EXPECT_THAT(diagnosis.findings[0].fix, HasSubstr("--distribution=block:cyclic"));
}

TEST(Doctor, CodeForOtherGpusForNoneAndForOtherPageFaults) {
  FrontierJob other;
  other.on_all([](FakedNode& node) { node.set_program("amdgcn-amd-amdhsa--gfx942 amdgcn-amd-amdhsa--gfx90a:xnack+"); });
  expect_one(other, "code object", "GPU gfx90a, and kernels for gfx90a:xnack+, gfx942", "build terrace");
  other.on_all([](FakedNode& node) { node.set_program("amdgcn-amd-amdhsa--gfx90a:xnack-"); });
  EXPECT_THAT(other.diagnose().findings, SizeIs(0));
  FrontierJob none;
  none.on_all([](FakedNode& node) { node.set_program("no kernels"); });
  EXPECT_THAT(none.diagnose().findings, SizeIs(0));  // its library is loaded, so its kernels may be compressed
  none.on_all([](FakedNode& node) { node.write("/proc/self/maps", ""); });
  expect_one(none, "code object", "the program has no kernels for GPUs of AMD, and the node has gfx90a",
             "build terrace");
  FrontierJob faults;
  set_on_all(faults, "HSA_XNACK", "1");
  expect_one(faults, "code object", "HSA_XNACK=1 (xnack+) on GPUs gfx90a", "export HSA_XNACK=0");
}

TEST(Doctor, ARankWithAnotherLibraryOrProgramIsNamed) {
  FrontierJob job;
  job[5].write("/opt/rocm/lib/librccl.so.1", "rcc");
  expect_one(job, "versions", "rank 5 on frontier00001: librccl.so.1 is 3 bytes, ", "sbcast");
  EXPECT_THAT(job.diagnose().findings[0].found, HasSubstr("and 4 bytes, "));
  EXPECT_THAT(job.diagnose().findings[0].found, HasSubstr("on ranks 0 to 4, 6 and 7"));
  FrontierJob program;
  program[0].set_program("amdgcn-amd-amdhsa--gfx90a, another build");
  expect_one(program, "versions", "rank 0 on frontier00001: the program is 40 bytes", "sbcast");
}

TEST(Doctor, MemoryThatAnotherProcessHolds) {
  FrontierJob job;
  // 4.1 GB of a die of 68.7 are allowed, 4.4 are not.
  job.on_all(
      [](FakedNode& node) { node.write("/sys/bus/pci/devices/0000:c9:00.0/mem_info_vram_used", "4100000000\n"); });
  EXPECT_THAT(job.diagnose().findings, SizeIs(0));
  job.on_all(
      [](FakedNode& node) { node.write("/sys/bus/pci/devices/0000:c9:00.0/mem_info_vram_used", "4400000000\n"); });
  expect_one(job, "memory", "rank 2 on frontier00001: GPU 0000:c9:00.0 has 59.9 GiB of 64.0 GiB free", "--exclude");
}

TEST(Doctor, MemoryThatWasWrong) {
  FrontierJob job;
  const auto count = [&](const char* part, const std::string& text) {
    job.on_all([&](FakedNode& node) {
      node.write(fmt::format("/sys/bus/pci/devices/0000:c9:00.0/ras/{}_err_count", part), text);
    });
  };
  count("umc", "ue: 0\nce: 12\n");  // single bits, which cosmic rays change too
  EXPECT_THAT(job.diagnose().findings, SizeIs(0));
  count("umc", "ue: 2\nce: 12\n");
  expect_one(job, "memory errors",
             "rank 2 on frontier00001: GPU 0000:c9:00.0 has had 2 errors that were not corrected and 12 that were",
             "--exclude");
  count("umc", "ue: 0\nce: 900\n");
  count("gfx", "ue: 0\nce: 100\n");
  expect_one(job, "memory errors", "GPU 0000:c9:00.0 has had 0 errors that were not corrected and 1,000 that were",
             "--exclude", Severity::warning);
  FrontierJob host;
  host.on_all([](FakedNode& node) {
    node.write("/sys/devices/system/edac/mc/mc0/ce_count", "3\n");
    node.write("/sys/devices/system/edac/mc/mc0/ue_count", "0\n");
    node.write("/sys/devices/system/edac/mc/mc1/ue_count", "1\n");
  });
  expect_one(host, "memory errors",
             "all 8 ranks on frontier00001: the node's memory (mc1) has had 1 errors that were not corrected",
             "report it to the centre");
}

TEST(Doctor, SharedMemoryThatIsSmallOrFull) {
  const auto mount = [](FrontierJob& job, const std::string& options) {
    job.on_all([&](FakedNode& node) {
      node.write("/proc/self/mountinfo",
                 "25 22 0:24 / /lustre/orion rw - lustre orion@tcp rw\n"
                 "26 22 0:25 / /mnt/bb/ada rw - xfs /dev/mapper/bb rw\n"
                 "27 22 0:26 / /dev/shm rw,nosuid shared:2 - tmpfs shm " +
                     options + "\n");
    });
  };
  FrontierJob small;
  mount(small, "rw,size=65536k,inode64");
  expect_one(small, "shared memory", "all 8 ranks on frontier00001: /dev/shm has 64.0 MiB", "--shm-size=1g",
             Severity::warning);
  mount(small, "rw,size=1048576k");
  EXPECT_THAT(small.diagnose().findings, SizeIs(0));
  FrontierJob full;
  full.on_all([](FakedNode& node) {
    node.write("/dev/shm/vader_segment", "left");
    node.view.space = [](const std::filesystem::path& path) {
      const std::uintmax_t giga = std::uintmax_t{1} << 30;
      return path == "/dev/shm" ? std::filesystem::space_info{8 * giga, giga / 16, giga / 16}
                                : std::filesystem::space_info{1900, 1800, 1800};
    };
  });
  expect_one(full, "shared memory", "/dev/shm has 64.0 MiB of ", "remove files", Severity::warning);
}

TEST(Doctor, CachesOverTheNetwork) {
  FrontierJob shared;
  set_on_all(shared, "MIOPEN_USER_DB_PATH", "/lustre/orion/abc123/miopen");
  expect_one(shared, "caches", "MIOPEN_USER_DB_PATH=/lustre/orion/abc123/miopen is on lustre",
             "MIOPEN_USER_DB_PATH=/tmp/", Severity::warning);
  FrontierJob unset;
  unset_on_all(unset, "MIOPEN_CUSTOM_CACHE_DIR");
  expect_one(unset, "caches", "MIOPEN_CUSTOM_CACHE_DIR is not set, and the home folder is on nfs4",
             "MIOPEN_CUSTOM_CACHE_DIR=/tmp/", Severity::warning);
}

TEST(Doctor, DiskOfTheNodeAbsentOrFull) {
  FrontierJob absent;
  absent.on_all([](FakedNode& node) { node.remove("/mnt/bb"); });
  expect_one(absent, "node disk", "no folder of the user in /mnt/bb", "-C nvme", Severity::warning);
  FrontierJob full;
  full[0].view.space = [](const std::filesystem::path&) { return std::filesystem::space_info{2048, 100, 100}; };
  expect_one(full, "node disk", "rank 0 on frontier00001: /mnt/bb/ada has 100 B of 2.0 KiB free", "remove files",
             Severity::warning);
}

TEST(Doctor, FolderOfTheRunOnNfsOrOld) {
  FrontierJob home;
  home.run_folder = "/ccs/home/ada/run";
  expect_one(home, "run folder", "/ccs/home/ada/run is on nfs4", "/lustre/orion/", Severity::warning);
  FrontierJob old;
  old.on_all([&](FakedNode& node) { node.write_aged(old.run_folder + "/step_00000010/weights", 70 * 86400.0); });
  EXPECT_THAT(old.diagnose().findings, SizeIs(0));
  old.on_all([&](FakedNode& node) { node.write_aged(old.run_folder + "/step_00000010/weights", 80 * 86400.0); });
  expect_one(old, "run folder", "was last used 80 days ago", "archive", Severity::warning);
}

TEST(Doctor, TimeLeftIsShorterThanASave) {
  FrontierJob job;
  const auto ends_in = [&](int64_t seconds) {
    const auto now = std::chrono::system_clock::to_time_t(job[0].view.now);
    set_on_all(job, "SLURM_JOB_END_TIME", std::to_string(now + seconds));
  };
  ends_in(500);
  expect_one(job, "time left", "the job ends in less than 10 min 00 s", "--signal=USR1@600", Severity::warning);
  // The files of the newest checkpoint were written within 200 s; an older one counts no longer.
  job.on_all([&](FakedNode& node) {
    node.write_aged(job.run_folder + "/step_00000010/first", 5000);
    node.write_aged(job.run_folder + "/step_00000010/last", 100);
    node.write_aged(job.run_folder + "/step_00000020/first", 300);
    node.write_aged(job.run_folder + "/step_00000020/last", 100);
  });
  EXPECT_THAT(job.diagnose().findings, SizeIs(0));
  ends_in(150);
  expect_one(job, "time left", "less than 3 min 20 s, which a save takes", "--signal=USR1@600", Severity::warning);
  ends_in(-10);
  expect_one(job, "time left", "which a save takes", "--signal=USR1@600", Severity::warning);
}

TEST(Doctor, TimeLeftIsAskedOfSlurmWhereNoVariableSaysIt) {
  FrontierJob job;
  unset_on_all(job, "SLURM_JOB_END_TIME");
  const auto ends_in = [&](int64_t seconds) {
    const std::time_t end = std::chrono::system_clock::to_time_t(job[0].view.now) + seconds;
    char text[32] = "";
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", std::localtime(&end));
    job.on_all([&](FakedNode& node) {
      node.view.slurm_job = [says = fmt::format("JobId=17 EndTime={} Network=disable_rdzv_get", text)](
                                const std::string&) { return says; };
    });
  };
  ends_in(700);
  EXPECT_THAT(job.diagnose().findings, SizeIs(0));
  ends_in(500);
  expect_one(job, "time left", "all 8 ranks on frontier00001: the job ends in less than 10 min 00 s", "USR1@600",
             Severity::warning);
}

TEST(Doctor, FindingsAsJsonAndText) {
  FrontierJob job;
  job[7].view.environment["FI_MR_CACHE_MONITOR"] = "memhooks";
  const Diagnosis diagnosis = job.diagnose();
  const Json json = parse_json(json_of(diagnosis).dump());
  ASSERT_EQ(json["findings"].size(), 1U);
  EXPECT_EQ(json["findings"][0], (Json{{"check", "cache monitor"},
                                       {"severity", "error"},
                                       {"found", diagnosis.findings[0].found},
                                       {"why", diagnosis.findings[0].why},
                                       {"fix", "export FI_MR_CACHE_MONITOR=kdreg2"}}));
  EXPECT_EQ(json["checks"].size() + json["not_applicable"].size(), checks().size());
  EXPECT_EQ(json["not_applicable"][0], (Json{{"check", "rank order"}, {"reason", "all ranks are on one node"}}));
  EXPECT_THAT(
      text_of(diagnosis),
      AllOf(testing::StartsWith("error: cache monitor: rank 7 on frontier00001: "),
            HasSubstr("\n  fix: export FI_MR_CACHE_MONITOR=kdreg2\n1 finding in 19 checks of 8 ranks on 2 nodes: "),
            HasSubstr("not applicable: rank order: all ranks are on one node\n")));
  EXPECT_THAT(line_of(diagnosis.findings[0]), HasSubstr("Fix: export FI_MR_CACHE_MONITOR=kdreg2"));
}

}  // namespace
}  // namespace terrace::doctor
