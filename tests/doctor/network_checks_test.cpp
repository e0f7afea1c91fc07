// Each row of docs/doctor.md on how ranks communicate, spoiled in turn on a clean node of Frontier, gives one finding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>

#include "terrace/doctor/checks.h"
#include "tests/doctor/expect_finding.h"
#include "tests/doctor/faked_nodes.h"

namespace terrace::doctor {
namespace {

using testing::SizeIs;

TEST(Doctor, PlugInMissingUnusedAndUnloadable) {
  FrontierJob missing;
  missing[2].remove("/opt/plug-in");
  expect_one(missing, "plug-in", "rank 2 on frontier00001: NCCL_NET_PLUGIN=/opt/plug-in/librccl-net.so is in no folder",
             "module load rccl-net-plugin");
  FrontierJob by_folder;
  unset_on_all(by_folder, "NCCL_NET_PLUGIN");
  unset_on_all(by_folder, "NCCL_NET");
  expect_one(by_folder, "plug-in", "all 8 ranks on frontier00001: no plug-in is in a folder of LD_LIBRARY_PATH",
             "export");
  set_on_all(by_folder, "LD_LIBRARY_PATH", "/opt/none::/opt/plug-in");
  EXPECT_THAT(by_folder.diagnose().findings, SizeIs(0));
  FrontierJob sockets;
  set_on_all(sockets, "NCCL_NET", "Socket");
  expect_one(sockets, "plug-in", "NCCL_NET=Socket on several nodes", "NCCL_NET=OFI");
  set_on_all(sockets, "SLURM_STEP_NUM_NODES", "1");  // of the two nodes of the job
  EXPECT_THAT(sockets.diagnose().findings, SizeIs(0));
  FrontierJob broken;
  broken[0].view.load_error = [](const std::filesystem::path& library) { return library.string() + ": no libfabric"; };
  expect_one(broken, "plug-in", "cannot be loaded: /opt/plug-in/librccl-net.so: no libfabric", "rccl-net-plugin");
}

// ld.so looks into its cache, the folders of its configuration, and those that it knows.
TEST(Doctor, PlugInThatLdSoFinds) {
  FrontierJob job;
  unset_on_all(job, "NCCL_NET_PLUGIN");
  expect_one(job, "plug-in", "NCCL_NET=OFI, and no plug-in is in a folder of LD_LIBRARY_PATH or of ld.so",
             "module load");
  const auto expect_found = [&](const std::function<void(FakedNode&)>& change) {
    FrontierJob with;
    unset_on_all(with, "NCCL_NET_PLUGIN");
    with.on_all(change);
    EXPECT_THAT(with.diagnose().findings, SizeIs(0)) << text_of(with.diagnose());
  };
  expect_found([](FakedNode& node) {
    using namespace std::string_literals;
    node.write("/etc/ld.so.cache", "ld.so-1.7.0\0\0glibc-ld.so.cache1.1\0librccl.so.1\0/opt/rocm/lib/librccl.so.1\0"s +
                                       "librccl-net.so\0/opt/site/lib/librccl-net.so\0"s);
    node.write("/opt/site/lib/librccl-net.so", "plug-in");
  });
  expect_found([](FakedNode& node) {
    node.write("/etc/ld.so.conf", "# of the site\ninclude ld.so.conf.d/*.conf\n");
    node.write("/etc/ld.so.conf.d/net.conf", "/opt/site/lib\n");
    node.write("/opt/site/lib/libnccl-net.so", "plug-in");
  });
  expect_found([](FakedNode& node) { node.write("/usr/lib64/librccl-net.so", "plug-in"); });
  FrontierJob other;
  unset_on_all(other, "NCCL_NET_PLUGIN");
  other.on_all([](FakedNode& node) {
    node.write("/etc/ld.so.conf", "include ld.so.conf.d/*.conf\n");
    node.write("/etc/ld.so.conf.d/net.conf.old", "/opt/site/lib\n");  // which the pattern leaves out
    node.write("/opt/site/lib/librccl-net.so", "plug-in");
  });
  EXPECT_THAT(other.diagnose().findings, SizeIs(1));
  FrontierJob named;
  set_on_all(named, "NCCL_NET_PLUGIN", "ofi");
  named.on_all([](FakedNode& node) { node.write("/lib64/libnccl-net-ofi.so", "plug-in"); });
  EXPECT_THAT(named.diagnose().findings, SizeIs(0));
}

TEST(Doctor, GpuSupportOfCrayMpichWithoutItsLibrary) {
  FrontierJob job;
  set_on_all(job, "MPICH_GPU_SUPPORT_ENABLED", "1");
  const auto load = [&](const std::string& libraries) {
    job.on_all([&](FakedNode& node) {
      std::string maps = "7f0000000000-7f0000001000 r-xp 00000000 08:01 5 /opt/rocm/lib/libamdhip64.so.7\n";
      std::istringstream names(libraries);
      for (std::string name; names >> name;) {
        maps += "7f0000002000-7f0000003000 r-xp 00000000 08:01 6 /opt/cray/pe/lib64/" + name + "\n";
        node.write("/opt/cray/pe/lib64/" + name, "library");
      }
      node.write("/proc/self/maps", maps);
    });
  };
  load("libmpi_gnu_123.so.12.0.0");
  expect_one(job, "GPU support of MPI",
             "all 8 ranks on frontier00001: MPICH_GPU_SUPPORT_ENABLED=1, and the program has no libmpi_gtl_hsa",
             "export MPICH_GPU_SUPPORT_ENABLED=0");
  load("libmpi_gnu_123.so.12.0.0 libmpi_gtl_hsa.so.0.0.0");
  EXPECT_THAT(job.diagnose().findings, SizeIs(0));
  load("libmpi.so.40.30.6");  // of Open MPI, which does not read the variable
  EXPECT_THAT(job.diagnose().findings, SizeIs(0));
  load("libmpi_cray.so.12");
  EXPECT_THAT(job.diagnose().findings, SizeIs(1));
  set_on_all(job, "MPICH_GPU_SUPPORT_ENABLED", "0");
  EXPECT_THAT(job.diagnose().findings, SizeIs(0));
}

TEST(Doctor, WaysOfNcclThatAreSwitchedOff) {
  FrontierJob job;
  set_on_all(job, "NCCL_P2P_DISABLE", "1");
  expect_one(job, "ways of NCCL", "all 8 ranks on frontier00001: NCCL_P2P_DISABLE=1", "unset NCCL_P2P_DISABLE",
             Severity::warning);
  set_on_all(job, "NCCL_P2P_DISABLE", "0");
  EXPECT_THAT(job.diagnose().findings, SizeIs(0));
  job[2].view.environment["NCCL_SHM_DISABLE"] = "1";
  expect_one(job, "ways of NCCL", "rank 2 on frontier00001: NCCL_SHM_DISABLE=1", "unset NCCL_SHM_DISABLE",
             Severity::warning);
}

TEST(Doctor, RendezvousOfProgramAndAdapter) {
  FrontierJob without_flag;
  without_flag.on_all(
      [](FakedNode& node) { node.view.slurm_job = [](const std::string&) { return "JobId=17 Network=(null)"; }; });
  expect_one(without_flag, "rendezvous", "FI_CXI_RDZV_PROTO=alt_read, and Slurm's network options are \"\"",
             "--network=disable_rdzv_get");
  FrontierJob without_protocol;
  unset_on_all(without_protocol, "FI_CXI_RDZV_PROTO");
  expect_one(without_protocol, "rendezvous", "FI_CXI_RDZV_PROTO is not alt_read", "export FI_CXI_RDZV_PROTO=alt_read");
  // srun's variable is that of the rank; Slurm then need not be asked.
  set_on_all(without_protocol, "SLURM_NETWORK", "");
  EXPECT_THAT(without_protocol.diagnose().findings, SizeIs(0));
  FrontierJob by_variable;
  set_on_all(by_variable, "SLURM_NETWORK", "disable_rdzv_get");
  by_variable.on_all([](FakedNode& node) {
    node.view.slurm_job = [](const std::string&) -> std::string { throw std::logic_error("asked for nothing"); };
  });
  EXPECT_THAT(by_variable.diagnose().findings, SizeIs(0));
  FrontierJob silent;  // Slurm cannot be asked
  silent.on_all([](FakedNode& node) { node.view.slurm_job = [](const std::string&) { return ""; }; });
  EXPECT_THAT(silent.diagnose().findings, SizeIs(0));
  EXPECT_THAT(silent.diagnose().not_applicable, SizeIs(4));
}

TEST(Doctor, CacheMonitor) {
  FrontierJob job;
  job[7].view.environment["FI_MR_CACHE_MONITOR"] = "memhooks";
  expect_one(job, "cache monitor", "rank 7 on frontier00001: FI_MR_CACHE_MONITOR=memhooks",
             "export FI_MR_CACHE_MONITOR=kdreg2");
  job[7].view.environment["FI_MR_CACHE_MONITOR"] = "userfaultfd";
  EXPECT_THAT(job.diagnose().findings, SizeIs(0));
  job[7].view.environment.erase("FI_MR_CACHE_MONITOR");
  expect_one(job, "cache monitor",
             "rank 7 on frontier00001: FI_MR_CACHE_MONITOR is not set, and libfabric's default is memhooks",
             "export FI_MR_CACHE_MONITOR=kdreg2", Severity::warning);
}

TEST(Doctor, InterfacesMissingOrNamedWrongly) {
  FrontierJob missing;
  missing[0].remove("/sys/class/net/hsn3");
  expect_one(missing, "interfaces", "3 of 4 interfaces: hsn0, hsn1, hsn2", "NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2");
  FrontierJob down;
  down[0].write("/sys/class/net/hsn1/operstate", "down\n");
  expect_one(down, "interfaces", "all 8 ranks on frontier00001: 3 of 4 interfaces: hsn0, hsn2, hsn3", "--exclude");
  FrontierJob named;
  set_on_all(named, "NCCL_SOCKET_IFNAME", "hsn0,ib0");
  expect_one(named, "interfaces", "NCCL_SOCKET_IFNAME names ib0", "NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3");
  for (const std::string list : {"hsn", "^docker", "=hsn2", ""}) {
    set_on_all(named, "NCCL_SOCKET_IFNAME", list);
    EXPECT_THAT(named.diagnose().findings, SizeIs(0)) << list;
  }
  set_on_all(named, "NCCL_SOCKET_IFNAME", "=hsn");
  EXPECT_THAT(named.diagnose().findings, SizeIs(1));
}

TEST(Doctor, Limits) {
  FrontierJob job;
  job[6].set_limits("1024", "8388608");
  expect_one(job, "limits", "rank 6 on frontier00001: 1024 open files, fewer than 65536 and 8.0 MiB of locked memory",
             "ulimit -n 65536", Severity::warning);
}

}  // namespace
}  // namespace terrace::doctor
