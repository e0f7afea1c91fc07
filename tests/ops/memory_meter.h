// Counts what a thread's tensors take while a guard installs it:
// c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, meter).
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>

namespace terrace::testing {

struct MemoryMeter : c10::MemoryReportingInfoBase {
  int64_t now = 0, peak = 0;  // bytes since it was made
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override {
    now += size;
    peak = std::max(peak, now);
  }
  bool memoryProfilingEnabled() const override { return true; }
};

}  // namespace terrace::testing
