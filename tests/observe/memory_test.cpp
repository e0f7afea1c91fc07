// The process's memory rises with what it touches, and the peak stays.
#include "terrace/observe/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace terrace::observe {
namespace {

TEST(Memory, FollowsPagesThatAreTouchedAndGivenBack) {
  constexpr int64_t size = 64 << 20;
  const int64_t slack = 8 << 20;  // what the test program itself may take or give back meanwhile
  const int64_t before = resident_bytes();
  void* pages = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  std::memset(pages, 1, size);
  const int64_t during = resident_bytes();
  EXPECT_GE(during, before + size - slack);
  EXPECT_GE(peak_resident_bytes(), during - slack);
  munmap(pages, size);
  EXPECT_LE(resident_bytes(), during - size + slack);
  EXPECT_GE(peak_resident_bytes(), before + size - slack);
}

TEST(Memory, AvailableMemoryIsPartOfTheMachine) {
  EXPECT_GT(available_bytes(), 0);
  EXPECT_LE(available_bytes(), sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
}

}  // namespace
}  // namespace terrace::observe
