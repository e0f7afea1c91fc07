// The memory of an emulated GPU. Its bytes lie at two addresses: one is the device's, which tensors and kernels have
// and which the host cannot touch; the other is for the code that plays the device.
#pragma once

#include <cstddef>

namespace gpu_emulation {

// The memory of the device, also by torch's getMemoryInfo(). The system provides a page when it is first written to.
constexpr size_t device_bytes = size_t{4} << 30;

// An address of the device. The bytes are 0xFF, which is NaN or -1, but for blocks of many megabytes. The caller frees
// it with release_on_device(). Throws std::bad_alloc where the device has no such block left.
void* allocate_on_device(size_t bytes);
void release_on_device(void* memory);

// Whether it is an address of the device. Outside emulated kernels (MemoryAccess), who reads or writes there ends the
// process with "the host accesses memory of the GPU" and the calls that led there.
bool is_on_device(const void* memory);

// The place where the code that plays the device finds what lies at the address; the same address if it is the host's.
void* reachable(void* memory);
const void* reachable(const void* memory);

struct DeviceMemoryUse {
  size_t bytes = 0, peak_bytes = 0;
  size_t allocations = 0, releases = 0;
};
DeviceMemoryUse device_memory_use();

}  // namespace gpu_emulation
