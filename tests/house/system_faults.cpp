// Loaded before the system's library (LD_PRELOAD), for tests of what a program does with slow or odd file systems:
// TERRACE_TEST_NO_FLOCK lets flock say that there are no locks, and TERRACE_TEST_SLOW_FSYNC makes the first fsync take
// so many seconds.
#include <dlfcn.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace {

template <typename Function>
Function* of_the_system(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

std::atomic<bool> slow = true;

}  // namespace

extern "C" int flock(int descriptor, int operation) {
  if (std::getenv("TERRACE_TEST_NO_FLOCK") == nullptr) {
    return of_the_system<int(int, int)>("flock")(descriptor, operation);
  }
  errno = ENOSYS;
  return -1;
}

extern "C" int fsync(int descriptor) {
  const char* const seconds = std::getenv("TERRACE_TEST_SLOW_FSYNC");
  if (seconds != nullptr && slow.exchange(false)) {
    std::this_thread::sleep_for(std::chrono::duration<double>(std::atof(seconds)));
  }
  return of_the_system<int(int)>("fsync")(descriptor);
}
