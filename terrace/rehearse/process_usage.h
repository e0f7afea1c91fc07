// Measures what this process uses of its machine while ranks run in it as threads.
#pragma once

#include <cstdint>
#include <mutex>
#include <thread>

namespace terrace::rehearse {

// The most of each that was seen; 0 where the system does not say.
struct ProcessUsage {
  int64_t resident_bytes = 0;
  int64_t threads = 0;
  int64_t open_files = 0;
};

ProcessUsage usage_now();
// Gives memory that was freed back to the system, so that what is taken later shows.
void give_back_free_memory();

// Looks at the process a few times a second, on a thread of its own, until it is destroyed.
class UsageWatch {
 public:
  UsageWatch();

  ProcessUsage most() const;

 private:
  mutable std::mutex mutex_;
  ProcessUsage most_;
  std::jthread thread_;  // ends before the members above
};

// Seconds for which the threads of this process have computed so far, in programs and in the system.
double processor_seconds();

}  // namespace terrace::rehearse
