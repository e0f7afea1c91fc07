// A lock that is held is refused, or waited for.
#include "terrace/base/files/file_lock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "terrace/base/error.h"
#include "tests/scratch_folder.h"

namespace terrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

TEST(FileLock, RefusesASecondHolder) {
  const ScratchFolder folder;
  const FileLock lock(folder / "a.lock", "held");
  EXPECT_THROW(FileLock(folder / "a.lock", "held"), UserError);
  const Clock::time_point begin = Clock::now();
  EXPECT_THROW(FileLock(folder / "a.lock", "held", seconds(1)), UserError);
  EXPECT_GE(Clock::now() - begin, seconds(1));
}

TEST(FileLock, WaitsUntilTheLockIsFree) {
  const ScratchFolder folder;
  auto lock = std::make_unique<FileLock>(folder / "a.lock", "held");
  std::jthread other([&] {
    std::this_thread::sleep_for(milliseconds(200));
    lock.reset();
  });
  const Clock::time_point begin = Clock::now();
  const FileLock waiting(folder / "a.lock", "held", seconds(60));
  EXPECT_GE(Clock::now() - begin, milliseconds(150));
}

}  // namespace
}  // namespace terrace
