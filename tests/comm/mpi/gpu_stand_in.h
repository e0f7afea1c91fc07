// Declares what tests ask of the stand-in for GPUs beyond the functions of CUDA.
#pragma once

#include <chrono>
#include <cstddef>

// Waits until all streams of the process are idle, as a GPU does that loads a kernel or returns memory. The calling
// thread must be no stream.
void wait_for_all_streams();

// The time that a late rank stays away: longer than a test may take. mpirun ends it when the others have failed.
constexpr std::chrono::seconds late(100);

// The number of communicators that the process has made so far, without those that were split from others.
int communicators_of_process();

// The number of threads that NCCL has made so far, as it does for each call of a nonblocking communicator.
int threads_that_enqueued_calls();

// The memory of the stand-in's GPUs. Two sources define it: host_as_gpu_memory.cpp, where all memory of the host counts
// as a GPU's, and tests/gpu_emulation/device/stand_in_memory.cpp, where the host cannot touch it.
namespace gpu_memory {

void* allocate(size_t bytes);
void release(void* memory);
bool is_on_gpu(const void* memory);
// The place where the stand-in's own threads find what lies at the address, which may also be one of the host.
void* reachable(void* memory);
inline const void* reachable(const void* memory) { return reachable(const_cast<void*>(memory)); }

}  // namespace gpu_memory
