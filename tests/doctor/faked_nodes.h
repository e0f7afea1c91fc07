// Nodes for the tests of `terrace doctor`: folders with the files of the kernel, environments and a clock.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "terrace/doctor/checks.h"
#include "tests/scratch_folder.h"

namespace terrace::doctor {

// One rank's view of a node of its own folder.
class FakedNode {
 public:
  FakedNode() {
    view.root = folder_.path();
    view.now = std::chrono::sys_days(std::chrono::year(2026) / 7 / 1);
    view.space = [](const std::filesystem::path&) { return std::filesystem::space_info{1900, 1800, 1800}; };
  }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = view.at(path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void remove(const std::string& path) { std::filesystem::remove_all(view.at(path)); }
  // A file of a run that was last read and written so long before the view's time.
  void write_aged(const std::string& path, double seconds) {
    write(path, "x");
    const auto time = std::chrono::system_clock::to_time_t(view.now) - static_cast<time_t>(seconds);
    const timespec both[2] = {{time, 0}, {time, 0}};
    ::utimensat(AT_FDCWD, view.at(path).c_str(), both, 0);
  }
  void set_cores(const std::string& list) {
    write("/proc/self/status", "Name:\tterrace\nCpus_allowed_list:\t" + list + "\n");
  }
  void set_limits(const std::string& open_files, const std::string& locked) {
    write("/proc/self/limits", fmt::format("Limit                     Soft Limit           Hard Limit           Units\n"
                                           "Max open files            {:<20} 524288               files\n"
                                           "Max locked memory         {:<20} unlimited            bytes\n",
                                           open_files, locked));
  }
  // Sets the time that the kernel has counted of a core, in hundredths of a second.
  void set_busy(int core, int64_t ticks) {
    write("/proc/stat", fmt::format("cpu{} {} 0 0 900 7 0 0 0 0 0\n", core, ticks));
  }
  // A process that last ran on the core.
  void set_process(const std::string& number, const std::string& name, int parent, int core, int64_t ticks) {
    write("/proc/" + number + "/stat", fmt::format("{} ({}) R {} 1 1 0 -1 4194304 1 0 0 0 {} 0 0 0 20 0 9 0 5 1 1 "
                                                   "18446744073709551615 1 1 1 1 1 1 1 1 1 1 1 1 17 {} 0 0\n",
                                                   number == "self" ? "50" : number, name, parent, ticks, core));
  }
  void set_program(const std::string& bytes) { write("/proc/self/exe", bytes); }
  Readings read(int64_t rank, const std::string& run_folder = "") const {
    return read_node(view, {.rank = rank, .run_folder = run_folder});
  }

  NodeView view;

 private:
  ScratchFolder folder_;
};

inline void add_gpu(FakedNode& node, const std::string& address, const std::string& vendor, const std::string& kind,
                    int numa, const std::string& memory = "") {
  const std::string folder = "/sys/bus/pci/devices/" + address + "/";
  node.write(folder + "vendor", vendor + "\n");
  node.write(folder + "class", kind + "\n");
  node.write(folder + "device", "0x1234\n");
  node.write(folder + "numa_node", fmt::format("{}\n", numa));
  if (!memory.empty()) node.write(folder + "mem_info_vram_total", memory + "\n");
}

inline void write_workstation(FakedNode& node) {
  node.write("/proc/sys/kernel/hostname", "desk\n");
  node.write("/sys/devices/system/cpu/online", "0-15\n");
  node.write("/sys/devices/system/node/node0/cpulist", "0-15\n");
  for (const char* name : {"eth0", "lo", "docker0"})
    node.write(fmt::format("/sys/class/net/{}/operstate", name), "up\n");
  node.write("/proc/self/mountinfo", "22 1 0:21 / / rw - ext4 /dev/nvme0n1p2 rw\n");
  node.set_cores("0-15");
  node.set_limits("1024", "8388608");
  node.set_program("no kernels");
  node.view.environment = {{"HOME", "/ada"}, {"USER", "ada"}};
}

// The eight ranks of a node of Frontier as its documents describe it, in a job of two nodes. Local rank i has the cores
// 8 i + 1 to 8 i + 7. All ranks have one /sys; other files are each rank's own.
class FrontierJob {
 public:
  // The place of a local rank: the bus of its die, and the number of the die for the driver.
  struct Place {
    const char* bus;
    int die, numa;
  };
  static constexpr Place places[8] = {{"d1", 4, 0}, {"d6", 5, 0}, {"c9", 2, 1}, {"ce", 3, 1},
                                      {"d9", 6, 2}, {"de", 7, 2}, {"c1", 0, 3}, {"c6", 1, 3}};

  FrontierJob() {
    write_system(node_);
    for (int rank = 0; rank < 8; ++rank) {
      ranks.push_back(std::make_unique<FakedNode>());
      std::filesystem::create_symlink(node_.view.at("/sys"), ranks.back()->view.at("/sys"));
      write_files(*ranks.back());
      write_process(*ranks.back(), rank);
    }
  }

  static std::string address(const Place& place) { return fmt::format("0000:{}:00.0", place.bus); }
  static std::string cores_of_numa(int numa) {
    return fmt::format("{}-{},{}-{}", 16 * numa, 16 * numa + 15, 64 + 16 * numa, 79 + 16 * numa);
  }
  FakedNode& operator[](size_t rank) { return *ranks[rank]; }
  template <typename Change>
  void on_all(Change&& change) {
    for (const auto& rank : ranks) change(*rank);
  }
  JobReadings read() const {
    JobReadings job;
    for (size_t i = 0; i < ranks.size(); ++i) job.push_back(ranks[i]->read(static_cast<int64_t>(i), run_folder));
    return job;
  }
  Diagnosis diagnose() const { return doctor::diagnose(read()); }

  std::vector<std::unique_ptr<FakedNode>> ranks;
  std::string run_folder = "/lustre/orion/abc123/scratch/ada/run";

 private:
  static void write_system(FakedNode& node) {
    node.write("/sys/devices/system/cpu/online", "0-127\n");
    for (int core = 0; core < 64; core += 8) {
      node.write(fmt::format("/sys/devices/system/cpu/cpu{}/cache/index3/shared_cpu_list", core),
                 fmt::format("{}-{},{}-{}\n", core, core + 7, 64 + core, 71 + core));
    }
    for (int numa = 0; numa < 4; ++numa) {
      node.write(fmt::format("/sys/devices/system/node/node{}/cpulist", numa), cores_of_numa(numa) + "\n");
      node.write(fmt::format("/sys/class/net/hsn{}/operstate", numa), "up\n");
      node.write(fmt::format("/sys/class/kfd/kfd/topology/nodes/{}/properties", numa),
                 "cpu_cores_count 32\nsimd_count 0\n");
    }
    node.write("/sys/class/net/lo/operstate", "unknown\n");
    for (const Place& place : places) {
      const std::string folder = "/sys/bus/pci/devices/" + address(place) + "/";
      node.write(folder + "vendor", "0x1002\n");
      node.write(folder + "device", "0x7408\n");
      node.write(folder + "class", "0x038000\n");
      node.write(folder + "numa_node", fmt::format("{}\n", place.numa));
      node.write(folder + "local_cpulist", cores_of_numa(place.numa) + "\n");
      node.write(folder + "mem_info_vram_total", "68702699520\n");
      node.write(folder + "mem_info_vram_used", "11759616\n");
      for (const char* part : {"umc", "gfx"})
        node.write(fmt::format("{}ras/{}_err_count", folder, part), "ue: 0\nce: 0\n");
      node.write(fmt::format("/sys/class/kfd/kfd/topology/nodes/{}/properties", 4 + place.die),
                 fmt::format("cpu_cores_count 0\nsimd_count 440\ngfx_target_version 90010\nlocation_id {}\ndomain 0\n"
                             "unique_id {}\n",
                             std::stoi(place.bus, nullptr, 16) << 8, 0xabc0 + place.die));
    }
  }

  static void write_files(FakedNode& node) {
    node.write("/proc/sys/kernel/hostname", "frontier00001\n");
    node.write("/proc/self/mountinfo",
               "22 1 0:21 / / rw - overlay overlay rw\n"
               "23 22 0:22 / /tmp rw,nosuid shared:1 - tmpfs tmpfs rw\n"
               "24 22 0:23 / /ccs/home rw - nfs4 server:/home rw\n"
               "25 22 0:24 / /lustre/orion rw - lustre orion@tcp rw\n"
               "26 22 0:25 / /mnt/bb/ada rw - xfs /dev/mapper/bb rw\n"
               "27 22 0:26 / /dev/shm rw,nosuid,nodev shared:2 - tmpfs tmpfs rw,size=263713516k,inode64\n");
    node.write("/mnt/bb/ada/terrace", "x");
    node.write("/opt/plug-in/librccl-net.so", "plug-in");
    node.write("/opt/rocm/lib/libamdhip64.so.7", "hip");
    node.write("/opt/rocm/lib/librccl.so.1", "rccl");
    node.write("/proc/self/maps",
               "7f0000000000-7f0000001000 r-xp 00000000 08:01 5 /opt/rocm/lib/libamdhip64.so.7\n"
               "7f0000002000-7f0000003000 r-xp 00000000 08:01 6 /opt/rocm/lib/librccl.so.1\n"
               "7ffc00000000-7ffc00001000 rw-p 00000000 00:00 0 [stack]\n");
    node.set_program(std::string("\0ELF hipv4-amdgcn-amd-amdhsa--gfx90a\0 more", 43));
    node.set_limits("65536", "unlimited");
  }

  static void write_process(FakedNode& node, int rank) {
    node.set_cores(fmt::format("{}-{}", 8 * rank + 1, 8 * rank + 7));
    node.set_busy(8 * rank + 1, 40);
    node.set_process("self", "terrace", 7, 8 * rank + 1, 5);
    node.view.wait_for_work = [] { return 0.5; };
    const auto now = std::chrono::system_clock::to_time_t(node.view.now);
    node.view.environment = {{"ROCR_VISIBLE_DEVICES", std::to_string(places[rank].die)},
                             {"NCCL_NET", "OFI"},
                             {"NCCL_NET_PLUGIN", "/opt/plug-in/librccl-net.so"},
                             {"NCCL_SOCKET_IFNAME", "hsn0,hsn1,hsn2,hsn3"},
                             {"FI_CXI_RDZV_PROTO", "alt_read"},
                             {"FI_MR_CACHE_MONITOR", "kdreg2"},
                             {"HSA_XNACK", "0"},
                             {"MIOPEN_USER_DB_PATH", "/tmp/miopen-17"},
                             {"MIOPEN_CUSTOM_CACHE_DIR", "/tmp/miopen-17"},
                             {"SLURM_JOB_ID", "17"},
                             {"SLURM_JOB_NUM_NODES", "2"},
                             {"SLURM_CLUSTER_NAME", "frontier"},
                             {"SLURM_JOB_END_TIME", std::to_string(now + 7200)},
                             {"USER", "ada"},
                             {"HOME", "/ccs/home/ada"}};
    node.view.slurm_job = [](const std::string& job) {
      return "JobId=" + job + " JobName=train EndTime=2026-07-01T02:00:00 Network=disable_rdzv_get Power=";
    };
  }

  FakedNode node_;
};

}  // namespace terrace::doctor
