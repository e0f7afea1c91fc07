// Reads affinity masks and the quotas of control groups.
#include "terrace/base/cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

namespace terrace {
namespace {

namespace fs = std::filesystem;

struct FreeSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};
using CpuSet = std::unique_ptr<cpu_set_t, FreeSet>;

constexpr int most_cores = static_cast<int>(CoreMask().size());
const size_t set_bytes = CPU_ALLOC_SIZE(most_cores);

CpuSet own_set() {
  CpuSet set(CPU_ALLOC(most_cores));
  CPU_ZERO_S(set_bytes, set.get());
  if (sched_getaffinity(0, set_bytes, set.get()) != 0) return nullptr;
  return set;
}

CoreMask mask_of(const CpuSet& set) {
  CoreMask mask;
  for (int core = 0; set && core < most_cores; ++core) {
    mask[static_cast<size_t>(core)] = CPU_ISSET_S(static_cast<size_t>(core), set_bytes, set.get()) != 0;
  }
  return mask;
}

// "200000 100000" or "max 100000": microseconds of a period; 0 where there is no limit.
double quota_in(const fs::path& file) {
  std::ifstream text(file);
  double quota = 0, period = 0;
  return text >> quota >> period && quota > 0 && period > 0 ? quota / period : 0;
}

double first_version_quota() {
  const fs::path folder = "/sys/fs/cgroup/cpu";
  std::ifstream quota_file(folder / "cpu.cfs_quota_us"), period_file(folder / "cpu.cfs_period_us");
  double quota = 0, period = 0;
  return quota_file >> quota && period_file >> period && quota > 0 && period > 0 ? quota / period : 0;
}

// The path of the process's control group, "/" in most containers.
fs::path group_path() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::/")) return line.substr(4);
  }
  return {};
}

double smaller_limit(double a, double b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

}  // namespace

CoreMask core_mask() { return mask_of(own_set()); }

// Asks for all cores for a moment: the kernel then sets those that are both asked for and allowed.
CoreMask core_mask_unbound() {
  const CpuSet own = own_set();
  if (!own) return {};
  const CpuSet every(CPU_ALLOC(most_cores));
  CPU_ZERO_S(set_bytes, every.get());
  for (int core = 0; core < most_cores; ++core) CPU_SET_S(static_cast<size_t>(core), set_bytes, every.get());
  if (sched_setaffinity(0, set_bytes, every.get()) != 0) return mask_of(own);
  const CoreMask given = core_mask();
  sched_setaffinity(0, set_bytes, own.get());
  return given;
}

double core_quota() {
  const fs::path root = "/sys/fs/cgroup";
  double quota = smaller_limit(quota_in(root / "cpu.max"), first_version_quota());
  fs::path folder = root;
  for (const fs::path& part : group_path()) {
    folder /= part;
    quota = smaller_limit(quota, quota_in(folder / "cpu.max"));
  }
  return quota;
}

int64_t usable_cores() {
  const auto masked = static_cast<int64_t>(core_mask().count());
  const int64_t cores = masked > 0 ? masked : static_cast<int64_t>(std::thread::hardware_concurrency());
  const double quota = core_quota();
  const int64_t limited = quota > 0 ? std::min(cores, static_cast<int64_t>(std::ceil(quota))) : cores;
  return std::max<int64_t>(1, limited);
}

}  // namespace terrace
