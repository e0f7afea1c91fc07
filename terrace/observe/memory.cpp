// Reads the kernel's counts in /proc and the limits of control groups.
#include "terrace/observe/memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "terrace/base/system/control_groups.h"

namespace terrace::observe {

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t all_pages = 0, resident_pages = 0;
  if (!(statm >> all_pages >> resident_pages)) return peak_resident_bytes();
  return resident_pages * sysconf(_SC_PAGESIZE);
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  int64_t peak = int64_t{usage.ru_maxrss} * 1024;
  // The kernel adds up page counts of threads lazily, and sandboxes may not count at all: never below what is there
  // now.
  std::ifstream statm("/proc/self/statm");
  int64_t all_pages = 0, resident_pages = 0;
  if (statm >> all_pages >> resident_pages) peak = std::max(peak, resident_pages * sysconf(_SC_PAGESIZE));
  return peak;
}

int64_t available_bytes() {
  const std::optional<int64_t> limited = memory_under_limits();
  std::ifstream meminfo("/proc/meminfo");
  for (std::string key, line; meminfo >> key && std::getline(meminfo, line);) {
    if (key != "MemAvailable:") continue;
    const int64_t available = std::stoll(line) * 1024;
    return std::min(available, limited.value_or(available));
  }
  return limited.value_or(0);
}

}  // namespace terrace::observe
