// Reads the scheduler's counts of every thread of this process.
#include "terrace/base/system/core_wait.h"

#include <algorithm>
#include <fstream>
#include <system_error>

namespace terrace {

namespace fs = std::filesystem;

CoreTime core_time(const fs::path& system) {
  constexpr double seconds_per_count = 1e-9;
  CoreTime sum;
  std::error_code error;
  // A thread may end while its folder is read; increment(error) then ends the loop.
  for (fs::directory_iterator thread(system / "proc/self/task", error), end; !error && thread != end;
       thread.increment(error)) {
    std::ifstream counts(thread->path() / "schedstat");
    double ran = 0, waited = 0;
    if (!(counts >> ran >> waited)) continue;
    sum.ran_seconds += seconds_per_count * ran;
    sum.waited_seconds += seconds_per_count * waited;
  }
  return sum;
}

double waited_share(const CoreTime& before, const CoreTime& after) {
  const double ran = std::max(0.0, after.ran_seconds - before.ran_seconds);
  const double waited = std::max(0.0, after.waited_seconds - before.waited_seconds);
  return ran + waited > 0 ? waited / (ran + waited) : 0;
}

}  // namespace terrace
