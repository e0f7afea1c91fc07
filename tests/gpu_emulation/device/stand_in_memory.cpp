// The stand-in for CUDA and NCCL allocates and moves memory of the emulated device.
#include "tests/comm/mpi/gpu_stand_in.h"
#include "tests/gpu_emulation/device/device_memory.h"

namespace gpu_memory {

void* allocate(size_t bytes) { return gpu_emulation::allocate_on_device(bytes); }
void release(void* memory) {
  if (memory != nullptr) gpu_emulation::release_on_device(memory);
}
bool is_on_gpu(const void* memory) { return gpu_emulation::is_on_device(memory); }
void* reachable(void* memory) { return gpu_emulation::reachable(memory); }

}  // namespace gpu_memory
