// The time that threads waited for a core, in counts as the kernel writes them and of threads that share one core.
#include "terrace/base/system/core_wait.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "terrace/base/system/cores.h"
#include "tests/scratch_folder.h"

namespace terrace {
namespace {

void write_counts(const std::filesystem::path& root, int thread, const std::string& counts) {
  const std::filesystem::path folder = root / "proc/self/task" / std::to_string(thread);
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "schedstat") << counts << '\n';
}

TEST(CoreWait, SumsOverThreads) {
  const ScratchFolder folder;
  write_counts(folder.path(), 7, "2000000000 500000000 41");
  write_counts(folder.path(), 8, "1000000000 1500000000 9");
  const CoreTime time = core_time(folder.path());
  EXPECT_DOUBLE_EQ(time.ran_seconds, 3);
  EXPECT_DOUBLE_EQ(time.waited_seconds, 2);
}

TEST(CoreWait, NothingWhereTheKernelDoesNotCount) {
  const ScratchFolder folder;
  const CoreTime time = core_time(folder.path());
  EXPECT_EQ(time.ran_seconds, 0);
  EXPECT_EQ(time.waited_seconds, 0);
}

TEST(CoreWait, ShareOfTheTimeBetweenReadings) {
  EXPECT_DOUBLE_EQ(waited_share({.ran_seconds = 1, .waited_seconds = 4}, {.ran_seconds = 4, .waited_seconds = 5}),
                   0.25);
  EXPECT_EQ(waited_share({}, {}), 0);
  // A thread that has ended takes its counts with it.
  EXPECT_EQ(waited_share({.ran_seconds = 5, .waited_seconds = 5}, {.ran_seconds = 1, .waited_seconds = 1}), 0);
}

TEST(CoreWait, TwoThreadsOnOneCoreWaitForEachOther) {
  const CoreMask own = core_mask();
  if (core_time().ran_seconds == 0 || own.none()) GTEST_SKIP() << "the kernel does not count the time of threads";
  CoreMask first;
  first[own._Find_first()] = true;
  std::atomic<bool> ends = false;
  const auto run = [&] {
    bind_to(first);
    while (!ends) {
    }
  };
  std::thread one(run), other(run);
  const CoreTime before = core_time();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const double share = waited_share(before, core_time());
  ends = true;
  one.join();
  other.join();
  // One of two threads that never sleep waits at any time; a third of the time leaves room for late starts.
  EXPECT_GT(share, 1.0 / 3);
}

}  // namespace
}  // namespace terrace
