// The memory that a piece of work takes at most, measured in a process of its own.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>

namespace terrace::data {

// Peak resident bytes of a process that does the work. `work` returns whether it did all of it.
template <typename Work>
int64_t peak_memory_of(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work() ? 0 : 1);
  int status = 0;
  rusage usage{};
  EXPECT_EQ(::wait4(child, &status, 0, &usage), child);
  EXPECT_EQ(status, 0);
  return usage.ru_maxrss * 1024;
}

}  // namespace terrace::data
