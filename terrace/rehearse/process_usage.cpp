// Reads /proc/self.
#include "terrace/rehearse/process_usage.h"

#include <sys/resource.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <stop_token>
#include <string>
#include <system_error>

#include "terrace/observe/memory.h"

namespace terrace::rehearse {
namespace {

constexpr auto between_looks = std::chrono::milliseconds(250);

int64_t entries_of(const char* folder) {
  std::error_code ignored;
  int64_t entries = 0;
  for (std::filesystem::directory_iterator entry(folder, ignored), end; entry != end; entry.increment(ignored)) {
    ++entries;
  }
  return entries;
}

int64_t threads_now() {
  std::ifstream status("/proc/self/status");
  for (std::string key, line; status >> key && std::getline(status, line);) {
    if (key == "Threads:") return std::stoll(line);
  }
  return 0;
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

void give_back_free_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

ProcessUsage usage_now() {
  return {
      .resident_bytes = observe::resident_bytes(), .threads = threads_now(), .open_files = entries_of("/proc/self/fd")};
}

UsageWatch::UsageWatch()
    : thread_([this](const std::stop_token& stop) {
        std::mutex sleeping;
        std::condition_variable_any woken;
        std::unique_lock lock(sleeping);
        do {
          const ProcessUsage now = usage_now();
          const std::lock_guard guard(mutex_);
          most_.resident_bytes = std::max(most_.resident_bytes, now.resident_bytes);
          most_.threads = std::max(most_.threads, now.threads);
          most_.open_files = std::max(most_.open_files, now.open_files);
        } while (!woken.wait_for(lock, stop, between_looks, [&] { return stop.stop_requested(); }));
      }) {}

ProcessUsage UsageWatch::most() const {
  const std::lock_guard lock(mutex_);
  return most_;
}

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

}  // namespace terrace::rehearse
