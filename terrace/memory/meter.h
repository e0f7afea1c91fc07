// Counts the bytes of a thread's tensors while the meter is installed by
// c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, meter).
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>

namespace terrace::memory {

// Tensors that exist already are not counted, and torch warns when they are freed while a meter is installed.
struct Meter : c10::MemoryReportingInfoBase {
  explicit Meter(c10::DeviceType type = c10::DeviceType::CPU) : device_type(type) {}

  c10::DeviceType device_type;  // tensors on other devices are not counted
  int64_t now = 0;              // bytes since construction
  int64_t peak = 0;             // since construction, or since it was set to `now`

  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device device) override {
    if (device.type() != device_type) return;
    now += size;
    peak = std::max(peak, now);
  }
  bool memoryProfilingEnabled() const override { return true; }
};

}  // namespace terrace::memory
