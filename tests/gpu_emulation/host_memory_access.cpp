// Kernels on memory of the host, which is never protected. Each thread of a test runs kernels of its own.
#include "tests/gpu_emulation/memory_access.h"

namespace gpu_emulation {

MemoryAccess::MemoryAccess() = default;
MemoryAccess::~MemoryAccess() = default;

}  // namespace gpu_emulation
