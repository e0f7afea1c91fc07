// The memory of the host counts as that of the stand-in's GPUs, so that tests look at it and make it.
#include "tests/comm/mpi/gpu_stand_in.h"

namespace gpu_memory {

void* allocate(size_t bytes) { return new char[bytes]; }
void release(void* memory) { delete[] static_cast<char*>(memory); }
bool is_on_gpu(const void*) { return true; }
void* reachable(void* memory) { return memory; }

}  // namespace gpu_memory
