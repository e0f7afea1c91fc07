// Reads affinity masks.
#include "terrace/base/system/cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "terrace/base/system/control_groups.h"
#include "terrace/base/system/core_list.h"

namespace terrace {
namespace {

struct FreeSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};
using CpuSet = std::unique_ptr<cpu_set_t, FreeSet>;

constexpr int most_cores = static_cast<int>(CoreMask().size());
const size_t set_bytes = CPU_ALLOC_SIZE(most_cores);

}  // namespace

CoreMask core_mask() {
  const CpuSet set(CPU_ALLOC(most_cores));
  CPU_ZERO_S(set_bytes, set.get());
  CoreMask mask;
  if (sched_getaffinity(0, set_bytes, set.get()) != 0) return mask;
  for (int core = 0; core < most_cores; ++core) {
    mask[static_cast<size_t>(core)] = CPU_ISSET_S(static_cast<size_t>(core), set_bytes, set.get()) != 0;
  }
  return mask;
}

// Asks for all cores for a moment: the kernel then sets those that are both asked for and allowed.
CoreMask core_mask_unbound() {
  const CoreMask own = core_mask();
  if (own.none() || !bind_to(CoreMask().set())) return own;
  const CoreMask given = core_mask();
  bind_to(own);
  return given;
}

CoreMask cores_near(const std::string& bus_address, const std::filesystem::path& system) {
  std::ifstream file(system / "sys/bus/pci/devices" / bus_address / "local_cpulist");
  std::string list;
  std::getline(file, list);
  return cores_of_list(list);
}

bool bind_to(const CoreMask& cores) {
  const CpuSet set(CPU_ALLOC(most_cores));
  CPU_ZERO_S(set_bytes, set.get());
  for (int core = 0; core < most_cores; ++core) {
    if (cores[static_cast<size_t>(core)]) CPU_SET_S(static_cast<size_t>(core), set_bytes, set.get());
  }
  return sched_setaffinity(0, set_bytes, set.get()) == 0;
}

int64_t usable_cores() {
  const auto masked = static_cast<int64_t>(core_mask().count());
  const int64_t cores = masked > 0 ? masked : static_cast<int64_t>(std::thread::hardware_concurrency());
  const double quota = core_quota();
  const int64_t limited = quota > 0 ? std::min(cores, static_cast<int64_t>(std::ceil(quota))) : cores;
  return std::max<int64_t>(1, limited);
}

}  // namespace terrace
