// Reads the scheduler's counts of every thread of this process.
#include "terrace/base/system/core_wait.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
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

ThreadCoreWait::ThreadCoreWait() : file_(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}

ThreadCoreWait::~ThreadCoreWait() {
  if (file_ >= 0) ::close(file_);
}

double ThreadCoreWait::seconds() const {
  std::array<char, 96> text = {};
  if (file_ < 0 || ::pread(file_, text.data(), text.size() - 1, 0) <= 0) return 0;
  char* end = nullptr;
  std::strtoull(text.data(), &end, 10);  // the time for which it ran
  return 1e-9 * static_cast<double>(std::strtoull(end, nullptr, 10));
}

}  // namespace terrace
