// Measures how long the threads of this process waited for a core while something else ran on it.
#pragma once

#include <filesystem>

namespace terrace {

// Sums over the threads that exist now; a thread that has ended is in no later reading.
struct CoreTime {
  double ran_seconds = 0;
  double waited_seconds = 0;  // ready to run, with no core that was free
};

// Returns the times that the kernel's scheduler counts (Documentation/scheduler/sched-stats.rst,
// "/proc/<pid>/schedstat"); zeros where it does not count them. `system` is the folder that has proc/.
CoreTime core_time(const std::filesystem::path& system = "/");

// The share of the time between two readings in which threads that were ready to run waited, from 0 to 1; 0 where none
// was ready.
double waited_share(const CoreTime& before, const CoreTime& after);

// How long one thread waited for a core. A reading takes about a microsecond; only that thread reads.
class ThreadCoreWait {
 public:
  ThreadCoreWait();  // for the calling thread
  ~ThreadCoreWait();
  ThreadCoreWait(const ThreadCoreWait&) = delete;
  ThreadCoreWait& operator=(const ThreadCoreWait&) = delete;

  // Since the thread began; 0 where the kernel does not count it.
  double seconds() const;

 private:
  int file_;
};

}  // namespace terrace
