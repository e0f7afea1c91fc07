// Lets emulated kernels reach the memory of the device that they run on.
#pragma once

namespace gpu_emulation {

// While one lives, kernels run, and the calling thread alone runs them: their shared memory is static. Two sources
// define it: host_memory_access.cpp for kernels on memory of the host, and device/device_memory.cpp for the emulated
// device.
class MemoryAccess {
 public:
  MemoryAccess();
  ~MemoryAccess();
  MemoryAccess(const MemoryAccess&) = delete;
  MemoryAccess& operator=(const MemoryAccess&) = delete;
};

}  // namespace gpu_emulation
