// The kernel's own counts.
#include "terrace/observe/memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

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

}  // namespace terrace::observe
